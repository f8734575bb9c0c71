// Plans and their steps.
#include "plans.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

// --- Plans.

std::unique_ptr<PythonPlan> plan(Argument<"source", PythonLayout> source, Argument<"target", PythonLayout> target,
                                 const std::string& element_type, PlannerName planner, CostName cost,
                                 MemoryLimitBytes memory_limit, ExchangeFlag exchange, std::int64_t staging,
                                 double exchange_weight, std::optional<std::int64_t> most_rounds,
                                 RelabelFlag relabelled, MachineOrNone machine) {
  PlanOptions options = plan_options(planner, cost, memory_limit, exchange, machine);
  options.executor.exchange_weight = exchange_weight;
  options.executor.most_rounds = most_rounds;
  if (staging > 0) options.executor.memory = {EngineMemory::Between::in_scratch, staging};
  const Problem problem = problem_of(*source, *target, element_type);
  return std::make_unique<PythonPlan>(make_plan(*relabelled ? relabel(problem, options).problem : problem, options));
}

// The plan that `auto` takes for executors of tensor programs.
std::unique_ptr<PythonPlan> tensor_plan(const PythonLayout& source, const PythonLayout& target,
                                        const std::string& element_type, MachineOrNone machine) {
  PlanOptions options;
  if (*machine) options = on_machine((*machine)->machine);
  options.executor = tensors::executor_of_tensors();
  return std::make_unique<PythonPlan>(make_plan(problem_of(source, target, element_type), options));
}

std::unique_ptr<PythonPlan> plan_from_json(Argument<"text", std::string> text) {
  return std::make_unique<PythonPlan>(parse_plan({"plan", *text}).plan);
}

// A step and the plan that it belongs to.
struct PythonStep {
  std::shared_ptr<const Plan> plan;
  std::size_t index;

  const Step& step() const { return plan->steps()[index]; }
  template <typename Operation>
  const Operation* as() const {
    return std::get_if<Operation>(&step().operation);
  }
};

std::vector<Shape> offsets_of(const Placement& placement) {
  std::vector<Shape> offsets;
  for (Device device = 0; device < placement.device_count(); ++device) offsets.push_back(placement.box(device).lo);
  return offsets;
}

std::vector<PythonStep> steps_of(const PythonPlan& self) {
  std::vector<PythonStep> steps;
  for (std::size_t i = 0; i < self.plan().steps().size(); ++i) steps.push_back({self.listed(), i});
  return steps;
}

void bind_step(nb::module_& module) {
  nb::class_<PythonStep>(module, "Step", "A step of a plan. Devices are numbers, boxes are pairs of corners.")
      .def_prop_ro(
          "op", [](const PythonStep& self) { return name_of(op_of(self.step())); },
          "dynslice, alltoall, allgather, allpermute, exchange or reduce.")
      .def_prop_ro("cost", [](const PythonStep& self) { return self.plan->cost.steps.at(self.index); })
      .def_prop_ro(
          "groups",
          [](const PythonStep& self) {
            const Groups* groups = groups_of(self.step().operation);
            return groups == nullptr ? std::optional<Groups>() : *groups;
          },
          "The groups of an alltoall or allgather: members in row-major order of the corners that they held.")
      .def_prop_ro(
          "pairs",
          [](const PythonStep& self) {
            using Pairs = std::vector<std::pair<Device, Device>>;
            const auto* permute = self.as<PermuteStep>();
            if (permute == nullptr) return std::optional<Pairs>();
            Pairs pairs;
            for (const DevicePair& pair : *permute->pairs) pairs.emplace_back(pair.source, pair.target);
            return std::optional<Pairs>(std::move(pairs));
          },
          "The pairs of an allpermute: sender and receiver of each tile.")
      .def_prop_ro(
          "transfers",
          [](const PythonStep& self) {
            using Transfers = std::vector<std::tuple<Device, Device, Shape, Shape>>;
            const auto* exchange = self.as<ExchangeStep>();
            if (exchange == nullptr) return std::optional<Transfers>();
            Transfers transfers;
            for (const Piece& one : *exchange->pieces) {
              transfers.emplace_back(one.from, one.to, one.box.lo, one.box.hi);
            }
            return std::optional<Transfers>(std::move(transfers));
          },
          "The pieces of an exchange: sender, receiver, and the corners of the box.")
      .def_prop_ro("local_in",
                   [](const PythonStep& self) { return self.plan->movement.before(self.index).local_shape(); })
      .def_prop_ro("local_out", [](const PythonStep& self) { return self.step().local_out(); })
      .def_prop_ro(
          "offsets_in", [](const PythonStep& self) { return offsets_of(self.plan->movement.before(self.index)); },
          "The corner of each device's tile before the step.")
      .def_prop_ro(
          "offsets_out", [](const PythonStep& self) { return offsets_of(self.step().after); },
          "The corner of each device's tile after the step.")
      .def("__repr__", [](const PythonStep& self) { return to_string(self.step()); });
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += letter;
    }
  }
  return result;
}

// The page of `retile draw`, a whole document, in a frame; the plan's text where there are too many devices to draw.
std::string html_of(const PythonPlan& self) {
  try {
    return "<iframe style=\"width: 100%; height: 40em; border: 0\" srcdoc=\"" + escaped(draw_html(self.plan())) +
           "\"></iframe>";
  } catch (const InputError&) {
    return "<pre>" + escaped(to_string(self.plan())) + "</pre>";
  }
}

void bind_plan(nb::module_& module) {
  nb::class_<PythonPlan>(module, "Plan",
                         "A plan: the steps from one layout to another, their cost, and what is proved of it. Made by "
                         "`retile.plan`.")
      .def_static("from_json", &plan_from_json, "text"_argument, nb::sig("def from_json(text: str) -> Plan"),
                  "The plan in a text of JSON, from to_json() or elsewhere.")
      .def_prop_ro("source", [](const PythonPlan& self) { return PythonLayout(self.plan().source); })
      .def_prop_ro("target", [](const PythonPlan& self) { return PythonLayout(self.plan().target); })
      .def_prop_ro("planner", [](const PythonPlan& self) { return self.plan().planner; })
      .def_prop_ro("steps", &steps_of)
      .def_prop_ro("cost", [](const PythonPlan& self) { return self.plan().cost.total; })
      .def_prop_ro("cost_model", [](const PythonPlan& self) { return self.plan().cost.model; })
      .def_prop_ro(
          "seconds",
          [](const PythonPlan& self) {
            return self.plan().time ? std::optional(1e-12 * static_cast<double>(self.plan().time->total))
                                    : std::nullopt;
          },
          "The seconds that the plan takes on the machine that it was made for; None without one.")
      .def_prop_ro(
          "least_seconds",
          [](const PythonPlan& self) {
            const auto& time = self.plan().time;
            return time ? std::optional(1e-12 * static_cast<double>(time->lower_bound.picoseconds)) : std::nullopt;
          },
          "A lower bound on the seconds of any plan on that machine; None without one.")
      .def_prop_ro(
          "lower_bound", [](const PythonPlan& self) { return self.plan().cost.lower_bound; },
          "A lower bound on the cost of any plan of the planner's steps.")
      .def_prop_ro(
          "floor", [](const PythonPlan& self) { return self.plan().cost.floor; },
          "The most elements that some device must receive, whatever the plan.")
      .def_prop_ro(
          "optimal", [](const PythonPlan& self) { return self.plan().cost.optimal; },
          "Whether it is proved that no plan of the planner's steps costs less.")
      .def_prop_ro(
          "peak", [](const PythonPlan& self) { return self.plan().memory.peak; },
          "The number of elements of the largest tile on the way.")
      .def_prop_ro(
          "_combined",
          [](const PythonPlan& self) {
            std::optional<std::string> element;
            for (const Step& step : self.plan().steps()) {
              if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) element = name_of(reduce->element);
            }
            return element;
          },
          "The type of the elements that the plan combines; None where it combines none.")
      .def_prop_ro("planning_ns", [](const PythonPlan& self) { return self.plan().planning_ns; })
      .def(
          "explain", [](const PythonPlan& self) { return to_string(self.plan()); },
          "The plan as text: layouts, steps and costs.")
      .def(
          "to_json", [](const PythonPlan& self) { return to_json(self.plan(), PlanLists::always); },
          nb::call_guard<nb::gil_scoped_release>())
      .def(
          "verify", [](const PythonPlan& self) { return find_faults(self.plan()); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Replays the plan box by box, and returns a sentence for each fault; none where the plan is right.")
      .def("_repr_html_", &html_of, nb::call_guard<nb::gil_scoped_release>())
      .def("__str__", [](const PythonPlan& self) { return to_string(self.plan()); })
      .def("__repr__", [](const PythonPlan& self) { return "Plan.from_json('" + self.key() + "')"; })
      .def(
          "__eq__", [](const PythonPlan& self, const PythonPlan& other) { return self.key() == other.key(); },
          nb::is_operator())
      .def("__hash__", [](const PythonPlan& self) { return std::hash<std::string>{}(self.key()); })
      .def("__getstate__", [](const PythonPlan& self) { return to_json(self.plan(), PlanLists::always); })
      .def("__setstate__", [](PythonPlan& self, const std::string& text) {
        new (&self) PythonPlan(parse_plan({"plan", text}).plan);
      });
}

}  // namespace

PlanOptions plan_options(PlannerName planner, CostName cost, MemoryLimitBytes memory_limit, ExchangeFlag exchange,
                         MachineOrNone machine) {
  PlanOptions options;
  options.planner = require(find_planner(*planner), "planner", *planner, planner_names);
  if (*machine) options = on_machine((*machine)->machine, options);
  if (*cost == "seconds" && !*machine) throw InputError("costs in seconds need a machine", "plan(…, machine=…)");
  if (*cost && *cost != "seconds") options.cost_model = find_cost_model(**cost);
  if (options.cost_model == nullptr)
    throw InputError("'" + **cost + "' is no cost model", "one of: " + cost_model_names() + ", seconds");
  if (!*exchange) options.executor.transport = Executor::Transport::collectives;
  options.memory_limit = *memory_limit;
  return options;
}

Problem problem_of(const PythonLayout& source, const PythonLayout& target, const std::string& element_type) {
  const ElementType type = require(find_element_type(element_type), "element type", element_type, element_type_names);
  return {"", source.layout, target.layout, type};
}

// NumPy's name and retile's name of every element type.
std::vector<std::pair<std::string, std::string>> element_types() {
  std::vector<std::pair<std::string, std::string>> names;
  for (int i = 0; i <= static_cast<int>(ElementType::c128); ++i) {
    const auto type = static_cast<ElementType>(i);
    names.emplace_back(numpy_name_of(type), name_of(type));
  }
  return names;
}

void bind_plans(nb::module_& module) {
  bind_step(module);
  module.def("element_types", &element_types, "NumPy's name and retile's name of each element type.");
  bind_plan(module);
  module.def(
      "plan", &plan, "source"_argument, "target"_argument, "element_type"_a, "planner"_argument, "cost"_argument,
      "memory_limit"_argument, "exchange"_argument, "staging"_a = 0, "exchange_weight"_a = 1.0,
      "most_rounds"_a = nb::none(), "relabel"_argument = false, "machine"_argument = nb::none(),
      nb::call_guard<nb::gil_scoped_release>(),
      nb::sig("def plan(source: Layout, target: Layout, element_type: str, planner: str, cost: str | None, "
              "memory_limit: int | None, exchange: bool, staging: int = 0, exchange_weight: float = 1.0, "
              "most_rounds: int | None = None, relabel: bool = False, machine: Machine | None = None) -> Plan"),
      "The arguments from `exchange` to `most_rounds` describe the executor: whether it has exchanges, the bytes that "
      "it takes beside tiles, the time of an exchange relative to a collective of the same cost, and the most rounds "
      "of an exchange, beyond which it is taken only where there is no other plan.");
  module.def("tensor_plan", &tensor_plan, "source"_a, "target"_a, "element_type"_a, "machine"_argument = nb::none(),
             nb::call_guard<nb::gil_scoped_release>(),
             nb::sig("def tensor_plan(source: Layout, target: Layout, element_type: str, machine: Machine | None = "
                     "None) -> Plan"),
             "The plan that `auto` takes for executors of tensor programs.");
  module.def(
      "parse_problem",
      [](Argument<"line", std::string> line) {
        const Problem problem = parse_problem(SourceText{"problem", *line});
        return std::make_tuple(PythonLayout(problem.source()), PythonLayout(problem.target()),
                               std::string(name_of(problem.element_type())));
      },
      "line"_argument, nb::sig("def parse_problem(line: str) -> tuple[Layout, Layout, str]"));
  module.def(
      "problem_json",
      [](const PythonLayout& source, const PythonLayout& target, const std::string& element_type) {
        return to_json(problem_of(source, target, element_type));
      },
      "source"_a, "target"_a, "element_type"_a, "A problem without a name, as a line of JSON.");
}

}  // namespace retile::python
