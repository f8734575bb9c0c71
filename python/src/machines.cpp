// Machines: hosts and their devices, rates and latencies.
#include <nanobind/stl/filesystem.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "arguments.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

PythonMachine machine_of(const nb::object& values) {
  if (!nb::isinstance<nb::dict>(values)) refuse("machine", "a dict with the keys of a machine file", values);
  const nb::object text = nb::module_::import_("json").attr("dumps")(values);
  return parse_machine({"machine", nb::cast<std::string>(text)});
}

PythonMachine machine_in(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw InputError("cannot read '" + path.string() + "': " + std::strerror(errno), {});
  return parse_machine({path.string(), text});
}

}  // namespace

void bind_machines(nb::module_& module) {
  nb::class_<PythonMachine>(
      module, "Machine",
      "A machine: which devices are on which host, and how fast bytes move between and inside hosts. Plans are "
      "timed on it, and `auto` takes the fastest.")
      .def(
          "__init__",
          [](PythonMachine* self, const nb::object& values) { new (self) PythonMachine(machine_of(values)); },
          "machine"_argument, nb::sig("def __init__(self, machine: dict) -> None"),
          "A machine with the keys of a machine file.")
      .def_static("from_file", &machine_in, "path"_a, nb::sig("def from_file(path: str | os.PathLike) -> Machine"),
                  "The machine of a file, such as `retile calibrate` writes.")
      .def_prop_ro("name", [](const PythonMachine& self) { return self.machine.name; })
      .def_prop_ro(
          "hosts", [](const PythonMachine& self) { return self.machine.hosts; }, "The devices on each host.")
      .def_prop_ro("device_count", [](const PythonMachine& self) { return self.machine.device_count(); })
      .def_prop_ro(
          "_times_programs", [](const PythonMachine& self) { return self.machine.programs.has_value(); },
          "Whether it says how long compiled programs take.")
      .def("to_json", [](const PythonMachine& self) { return self.text; })
      .def("__repr__", [](const PythonMachine& self) { return "Machine(" + self.text + ")"; })
      .def(
          "__eq__", [](const PythonMachine& self, const PythonMachine& other) { return self.text == other.text; },
          nb::is_operator())
      .def("__hash__", [](const PythonMachine& self) { return std::hash<std::string>{}(self.text); })
      .def("__getstate__", [](const PythonMachine& self) { return self.text; })
      .def("__setstate__", [](PythonMachine& self, const std::string& text) {
        new (&self) PythonMachine(parse_machine({"machine", text}));
      });
}

}  // namespace retile::python
