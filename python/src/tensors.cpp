// Tensor programs in the form that Python interprets: statements of plain values.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
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

// --- The programs to choose from on a machine.

// A plan, and the form in which it is carried out. The plan's time is that of the program.
struct TimedPlan {
  std::string form;
  Plan plan;
  std::vector<Statement> statements;
};

// Adds the plan in the form, unless it cannot be said, or is a program that was added before.
void add_program(std::vector<TimedPlan>& timed, const std::string& form, Plan plan, const LoweringOptions& options,
                 std::int64_t element_size, const Machine& machine) {
  try {
    const TensorProgram program = lower(plan, element_size, options);
    plan.time = program_time(program, plan.cost.floor, element_size, machine);
    std::vector<Statement> statements = program.statements();
    const auto is_same = [&](const TimedPlan& one) { return one.statements == statements; };
    if (std::any_of(timed.begin(), timed.end(), is_same)) return;
    timed.push_back({form, std::move(plan), std::move(statements)});
  } catch (const InputError&) {  // some devices would do what others do not
  }
}

// The plans of every planner, with and without exchanges.
std::vector<Plan> plans_of(const Problem& problem) {
  std::vector<Plan> plans;
  const auto add = [&](PlannerKind planner, Executor::Transport transport) {
    PlanOptions options;
    options.planner = planner;
    options.executor = tensors::executor_of_tensors();
    options.executor.transport = transport;
    try {
      plans.push_back(make_plan(problem, options));
    } catch (const InputError&) {  // there is no plan of this kind
    }
  };
  for (const PlannerKind planner : {PlannerKind::automatic, PlannerKind::direct, PlannerKind::wide, PlannerKind::paper,
                                    PlannerKind::lean, PlannerKind::gather_slice}) {
    add(planner, Executor::Transport::messages);
  }
  add(PlannerKind::automatic, Executor::Transport::collectives);
  return plans;
}

// Refers to nothing: plans in these forms and, with form "xla", the compiler's own; the fastest first.
std::vector<TimedPlan> timed_plans(const Problem& problem, const std::vector<std::string>& forms,
                                   const Machine& machine) {
  require_devices(machine, problem.device_count());
  const std::int64_t element_size = bytes_of(problem.element_type());
  std::vector<TimedPlan> timed;
  for (const Plan& plan : plans_of(problem)) {
    for (const std::string& form : forms) {
      if (const auto known = find_program_form(form)) {
        add_program(timed, form, plan, options_for(*known), element_size, machine);
      }
    }
  }
  if (std::find(forms.begin(), forms.end(), "xla") != forms.end()) {
    try {
      if (!contenders::xla_fails(problem)) {
        add_program(timed, "xla", contenders::plan_by_xla_rules(problem), {}, element_size, machine);
      }
    } catch (const InputError&) {  // the model of its rules does not cover the problem
    }
  }
  std::stable_sort(timed.begin(), timed.end(),
                   [](const TimedPlan& a, const TimedPlan& b) { return a.plan.time->total < b.plan.time->total; });
  return timed;
}

nb::list fastest_programs(const PythonLayout& source, const PythonLayout& target, const std::string& element_type,
                          const PythonMachine& machine, const std::vector<std::string>& forms) {
  std::vector<TimedPlan> timed;
  {
    const nb::gil_scoped_release release;
    timed = timed_plans(problem_of(source, target, element_type), forms, machine.machine);
  }
  nb::list list;
  for (TimedPlan& one : timed) list.append(nb::make_tuple(one.form, std::make_unique<PythonPlan>(std::move(one.plan))));
  return list;
}

// --- What programs are timed by.

nb::list work_list(const TensorProgram& program, std::int64_t element_size) {
  nb::list list;
  for (const std::vector<Work>& stage : work_of(program, element_size)) {
    for (const Work& one : stage) {
      constexpr std::array<const char*, 4> names{"permute", "gather", "all_to_all", "copy"};
      list.append(nb::make_tuple(names.at(static_cast<std::size_t>(one.kind)), one.size, one.bytes));
    }
  }
  return list;
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
      .def_prop_ro("collectives", &collectives_text, "The collectives in order, by JAX's names.")
      .def("work", &work_list, "element_size"_a,
           "What takes time: the kind, the devices of a group or for copies the bytes of a run, and the bytes.")
      .def(
          "seconds",
          [](const TensorProgram& self, std::int64_t element_size, const PythonMachine& machine) {
            return 1e-12 * static_cast<double>(program_time(self, 0, element_size, machine.machine).total);
          },
          "element_size"_a, "machine"_a, "The seconds that it takes on a machine that times programs.");
  module.def("fastest_programs", &fastest_programs, "source"_a, "target"_a, "element_type"_a, "machine"_a, "forms"_a,
             "Forms and plans, whose times are those of their programs on a machine that times programs; the fastest "
             "first. Form \"xla\" is XLA's own program, by the model of its rules.");
  module.def("lower", &lower_plan, "plan"_a, "element_size"_a, "form"_a, nb::call_guard<nb::gil_scoped_release>(),
             "The plan as a tensor program for elements of this many bytes, in a form: collectives, fast or lean.");
  module.def("xla_program", &xla_program, "source"_a, "target"_a, nb::call_guard<nb::gil_scoped_release>(),
             "XLA's own program, by the model of its rules; None where the model does not cover the problem.");
  module.def(
      "form_for",
      [](const std::string& platform, std::int64_t tile_bytes, std::int64_t run_bytes, bool is_alone) {
        return name_of(form_for(platform, tile_bytes, run_bytes, surroundings_of(is_alone)));
      },
      "platform"_a, "tile_bytes"_a, "run_bytes"_a, "is_alone"_a,
      "The form that is taken by default on a platform of JAX, for tiles of so many bytes that move in such runs.");
}

}  // namespace retile::python
