// What the parts of the extension share: the library's values in the form that Python holds.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "retile/retile.h"

namespace retile::python {

template <typename Value>
Value require(const std::optional<Value>& value, const char* what, const std::string& given, std::string_view known) {
  if (value) return *value;
  throw InputError("'" + given + "' is no " + what, "one of: " + std::string(known));
}

// A layout. Layouts are keys of caches, so their text is made once.

struct PythonLayout {
  Layout layout;
  std::string text;
  std::size_t hash;

  // NOLINTNEXTLINE(*-explicit-*): the same value
  PythonLayout(Layout given)
      : layout(std::move(given)), text(to_string(layout)), hash(std::hash<std::string>{}(text)) {}
  bool operator==(const PythonLayout& other) const {
    return hash == other.hash && text == other.text && layout == other.layout;
  }
};

// A machine. Machines are keys of caches, too. Their text is JSON.
struct PythonMachine {
  Machine machine;
  std::string text;

  // NOLINTNEXTLINE(*-explicit-*): the same value
  PythonMachine(Machine given) : machine(std::move(given)), text(to_json(machine)) {}
};

// The text of a diagnostic in an error, without the end of the last line.
std::string text_of(const Diagnostic& diagnostic);

// Each adds a part of the module.
void bind_layouts(nanobind::module_& module);
void bind_machines(nanobind::module_& module);
void bind_plans(nanobind::module_& module);
void bind_runs(nanobind::module_& module);
void bind_gpu_runs(nanobind::module_& module);
void bind_explanations(nanobind::module_& module);
void bind_tensors(nanobind::module_& module);
void bind_transfers(nanobind::module_& module);
void bind_files(nanobind::module_& module);

}  // namespace retile::python
