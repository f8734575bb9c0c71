// Explanations: what XLA does with redistributions, what could be done, and why.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "plans.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

using explanation::Account;
using explanation::LogOptions;

struct PythonExplanation {
  explanation::Question question;
  explanation::Explanation answer;
};

std::string to_string(const PythonExplanation& self) {
  std::string text = explanation::to_string(self.question, self.answer);
  text.pop_back();  // the end of the last line
  return text;
}

PythonExplanation explain(Argument<"source", PythonLayout> source, Argument<"target", PythonLayout> target,
                          const std::string& element_type, PlannerName planner, CostName cost,
                          MemoryLimitBytes memory_limit, ExchangeFlag exchange, MachineOrNone machine) {
  const Problem problem = problem_of(*source, *target, element_type);
  return {explanation::question_of(problem),
          explanation::explain(problem, plan_options(planner, cost, memory_limit, exchange, machine))};
}

// The explanations of a log's warnings, and the faults of warnings that could not be read or explained.
std::tuple<std::vector<PythonExplanation>, std::vector<std::string>> explain_log(
    Argument<"log", std::string> log, Argument<"mesh", MeshOrText> mesh,
    Argument<"shape", std::optional<std::string>> shape, Argument<"global_shape", bool> global_shape,
    PlannerName planner, CostName cost, MemoryLimitBytes memory_limit, ExchangeFlag exchange, MachineOrNone machine) {
  LogOptions options{placed_mesh(*mesh, {})};
  if (*shape) options.array = interchange::parse_array({"shape", **shape});
  options.has_global_shapes = *global_shape;
  const PlanOptions planning = plan_options(planner, cost, memory_limit, exchange, machine);
  explanation::LogQuestions found = explanation::read_log({"log", *log}, options);
  std::vector<PythonExplanation> explained;
  for (explanation::Question& question : found.questions) {
    try {
      explanation::Explanation answer = explanation::explain(question.problem, planning);
      explained.push_back({std::move(question), std::move(answer)});
    } catch (const InputError& error) {
      found.faults.push_back(error.diagnostic());
    }
  }
  std::vector<std::string> faults;
  for (const Diagnostic& fault : found.faults) faults.push_back(text_of(fault));
  return {std::move(explained), std::move(faults)};
}

void bind_account(nb::module_& module) {
  nb::class_<Account>(module, "Account", "What a plan does to a device.")
      .def_ro("steps", &Account::steps)
      .def_ro("moved_bytes", &Account::moved_bytes, "By the cost model.")
      .def_ro("peak_bytes", &Account::peak_bytes, "The bytes of the largest tile on the way.")
      .def("__repr__", [](const Account& self) {
        return "<Account: " + std::to_string(self.moved_bytes) + " bytes moved, " + std::to_string(self.peak_bytes) +
               " in the largest tile>";
      });
}

void bind_explanation(nb::module_& module) {
  nb::class_<PythonExplanation>(
      module, "Explanation",
      "An explanation of what XLA does with a redistribution, what retile would do, and why. Made by "
      "`retile.explain`; prints like the command.")
      .def_prop_ro("source", [](const PythonExplanation& self) { return PythonLayout(self.question.problem.source()); })
      .def_prop_ro("target", [](const PythonExplanation& self) { return PythonLayout(self.question.problem.target()); })
      .def_prop_ro(
          "operation", [](const PythonExplanation& self) { return self.question.operation; },
          "The name of the operation in a log; empty elsewhere.")
      .def_prop_ro(
          "count", [](const PythonExplanation& self) { return self.question.count; },
          "The number of warnings of a log about this redistribution.")
      .def_prop_ro(
          "xla", [](const PythonExplanation& self) { return self.answer.xla.account; },
          "What XLA does by the model of its rules; None where the model does not cover it.")
      .def_prop_ro(
          "rematerializes", [](const PythonExplanation& self) { return self.answer.xla.rematerializes; },
          "Whether XLA gathers the whole array on every device, although neither end requires it.")
      .def_prop_ro(
          "retile", [](const PythonExplanation& self) { return self.answer.ours; }, "What retile's plan does.")
      .def_prop_ro("planner", [](const PythonExplanation& self) { return self.answer.planner; })
      .def_prop_ro(
          "optimal", [](const PythonExplanation& self) { return self.answer.optimal; },
          "Whether it is proved that no plan of the planner's steps costs less.")
      .def_prop_ro(
          "floor_bytes", [](const PythonExplanation& self) { return self.answer.floor_bytes; },
          "The bytes that some device must receive, whatever the plan.")
      .def_prop_ro(
          "why", [](const PythonExplanation& self) { return self.answer.sentences; }, "The reasons, in sentences.")
      .def("to_json", [](const PythonExplanation& self) { return to_json(self.question, self.answer); })
      .def("__str__", &to_string)
      .def("__repr__", &to_string);
}

}  // namespace

void bind_explanations(nb::module_& module) {
  bind_account(module);
  bind_explanation(module);
  module.def("explain", &explain, "source"_argument, "target"_argument, "element_type"_a, "planner"_argument,
             "cost"_argument, "memory_limit"_argument, "exchange"_argument, "machine"_argument,
             nb::call_guard<nb::gil_scoped_release>(),
             nb::sig("def explain(source: Layout, target: Layout, element_type: str, planner: str, cost: str | None, "
                     "memory_limit: int | None, exchange: bool, machine: Machine | None) -> Explanation"));
  module.def("explain_log", &explain_log, "log"_argument, "mesh"_argument, "shape"_argument, "global_shape"_argument,
             "planner"_argument, "cost"_argument, "memory_limit"_argument, "exchange"_argument, "machine"_argument,
             nb::call_guard<nb::gil_scoped_release>(),
             nb::sig("def explain_log(log: str, mesh: Mesh | str | None, shape: str | None, global_shape: bool, "
                     "planner: str, cost: str | None, memory_limit: int | None, exchange: bool, "
                     "machine: Machine | None) -> "
                     "tuple[list[Explanation], list[str]]"));
}

}  // namespace retile::python
