// The module retile._retile: the library's values for Python. Names of frameworks are translated in Python
// (python/retile).
#include <string>

#include "bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

// --- Errors.

void raise(const char* kind, const Diagnostic& diagnostic) {
  PyErr_SetString(nb::module_::import_("retile._errors").attr(kind).ptr(), text_of(diagnostic).c_str());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const MemoryLimitError& error) {
    raise("MemoryLimitError", error.diagnostic());
  } catch (const InputError& error) {
    raise("InputError", error.diagnostic());
  }
}

}  // namespace

std::string text_of(const Diagnostic& diagnostic) {
  std::string text = to_string(diagnostic);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

NB_MODULE(_retile, module) {
  module.attr("__version__") = RETILE_VERSION;
  nb::set_leak_warnings(false);  // frameworks keep our plans and functions alive at the end of a process
  nb::register_exception_translator(translate);
  bind_layouts(module);
  bind_machines(module);
  bind_plans(module);
  bind_gpu_runs(module);
  bind_runs(module);
  bind_explanations(module);
  bind_tensors(module);
  bind_transfers(module);
  bind_files(module);
}

}  // namespace retile::python
