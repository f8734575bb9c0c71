// Tensor programs in the form that Python interprets: statements of plain values.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <variant>
#include <vector>

#include "plans.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

using namespace tensors;

nb::list to_python(const std::vector<Statement>& statements);

// --- The name of each operation, and its attributes beside operands and shape.

struct NamedOperation {
  const char* name;
  nb::dict fields;
};

nb::dict fields() { return {}; }

template <typename Value, typename... Rest>
nb::dict fields(const char* name, const Value& value, const Rest&... rest) {
  nb::dict all = fields(rest...);
  all[name] = nb::cast(value);
  return all;
}

struct OperationToPython {
  NamedOperation operator()(const SliceOp& op) const { return {"slice", fields("corners", op.corners)}; }
  NamedOperation operator()(const ReshapeOp& /*op*/) const { return {"reshape", {}}; }
  NamedOperation operator()(const TransposeOp& op) const { return {"transpose", fields("order", op.order)}; }
  NamedOperation operator()(const GatherOp& op) const {
    return {"gather", fields("dimension", op.dimension, "groups", op.groups)};
  }
  NamedOperation operator()(const AllToAllOp& op) const {
    return {"all_to_all", fields("split", op.split, "join", op.join, "groups", op.groups)};
  }
  NamedOperation operator()(const PermuteOp& op) const { return {"permute", fields("senders", op.senders)}; }
  NamedOperation operator()(const StackOp& /*op*/) const { return {"stack", {}}; }
  NamedOperation operator()(const ConcatenateOp& op) const {
    return {"concatenate", fields("dimension", op.dimension)};
  }
  NamedOperation operator()(const PickOp& op) const { return {"pick", fields("order", op.order)}; }
  NamedOperation operator()(const SelectOp& op) const { return {"select", fields("chosen", op.chosen)}; }
  NamedOperation operator()(const SwitchOp& op) const {
    nb::list branches;
    for (const std::vector<Statement>& statements : op.branches) branches.append(to_python(statements));
    return {"switch", fields("chosen", op.chosen, "branches", branches)};
  }
  NamedOperation operator()(const ZerosOp& /*op*/) const { return {"zeros", {}}; }
  NamedOperation operator()(const UpdateOp& op) const { return {"update", fields("corners", op.corners)}; }
  NamedOperation operator()(const CombineOp& op) const {
    return {"combine", fields("reduction", name_of(op.reduction))};
  }
};

nb::list to_python(const std::vector<Statement>& statements) {
  nb::list list;
  for (const Statement& statement : statements) {
    const NamedOperation operation = std::visit(OperationToPython(), statement.operation);
    list.append(
        nb::make_tuple(operation.name, statement.operands, nb::tuple(nb::cast(statement.shape)), operation.fields));
  }
  return list;
}

TensorProgram lower_plan(const PythonPlan& plan, std::int64_t element_size, const std::string& form) {
  const ProgramForm known = require(find_program_form(form), "form of a program", form, program_form_names);
  return lower(plan.plan(), element_size, options_for(known));
}

// XLA's own program; nothing where the model of its rules does not cover the problem, or says that the compiler fails.
std::optional<TensorProgram> xla_program(const PythonLayout& source, const PythonLayout& target) {
  const Problem problem("", source.layout, target.layout, ElementType::f32);
  try {
    if (contenders::xla_fails(problem)) return std::nullopt;
    return lower(contenders::plan_by_xla_rules(problem), bytes_of(ElementType::f32), {});
  } catch (const InputError&) {
    return std::nullopt;
  }
}

Surroundings surroundings_of(bool is_alone) { return is_alone ? Surroundings::none : Surroundings::program; }

}  // namespace

void bind_tensors(nb::module_& module) {
  nb::class_<TensorProgram>(module, "TensorProgram",
                            "A plan in the operations that compilers of tensors have: what every device does with its "
                            "tile, which is value 0.")
      .def_prop_ro(
          "statements", [](const TensorProgram& self) { return to_python(self.statements()); },
          "The statements, each of which makes the next value: the name of its operation, the numbers of its "
          "operands,\n"
          "the shape of its result and its attributes, by name. The last value is the result.")
      .def_prop_ro(
          "received", [](const TensorProgram& self) { return costs_of(self).received; },
          "The number of elements that the busiest device receives from others.")
      .def_prop_ro(
          "rounds", [](const TensorProgram& self) { return costs_of(self).rounds; },
          "The most permutations that one step becomes.")
      .def(
          "is_left_to_compiler",
          [](const TensorProgram& ours, const TensorProgram& compilers, bool is_alone) {
            return is_left_to_compiler(compilers, ours, surroundings_of(is_alone));
          },
          "compilers"_a, "is_alone"_a, "Whether the compiler's own program, `compilers`, does as well.")
      .def_prop_ro("collectives", &collectives_text, "The collectives in order, by JAX's names.");
  module.def("lower", &lower_plan, "plan"_a, "element_size"_a, "form"_a, nb::call_guard<nb::gil_scoped_release>(),
             "The plan as a tensor program for elements of this many bytes, in a form: collectives, fast or lean.");
  module.def("xla_program", &xla_program, "source"_a, "target"_a, nb::call_guard<nb::gil_scoped_release>(),
             "XLA's own program, by the model of its rules; None where the model does not cover the problem.");
  module.def(
      "form_for",
      [](const std::string& platform, std::int64_t tile_bytes, bool is_alone) {
        return name_of(form_for(platform, tile_bytes, surroundings_of(is_alone)));
      },
      "platform"_a, "tile_bytes"_a, "is_alone"_a,
      "The form that is taken by default on a platform of JAX, for tiles of so many bytes.");
}

}  // namespace retile::python
