#include "evaluation/contender.h"

#include <utility>

#include "retile/base/error.h"
#include "retile/contenders/xla_rules.h"
#include "retile/plan/verify.h"

namespace retile::evaluation {
namespace {

std::unique_ptr<PreparedRun> prepare(Engine& engine, const Movement& movement, const Problem& problem) {
  return engine.prepare(movement, bytes_of(problem.element_type()));
}

// The floor: every device copies its target tile once, a movement without steps.
Contender floor_contender(const Problem& problem) {
  const Placement target = problem.target().placement(problem.device_count());
  return {"memcpy", std::nullopt, target, [problem, target](Engine& engine) {
            return prepare(engine, {world_mesh(problem.device_count()), target, {}}, problem);
          }};
}

// The machine's hosts with the constants of _collective_utils.py in PyTorch's DTensor: 87.7 GB/s inside a host and 0.22
// of it across, 0.6 and 2.7 microseconds for a message.
Machine with_dtensor_costs(const Machine& machine) {
  Machine constants;
  constants.name = "DTensor's constants";
  constants.hosts = machine.hosts;
  constants.inside_rate = 87.7e9;
  constants.inside_latency = 0.6e-6;
  const double link_rate = 0.22 * constants.inside_rate;
  constants.links.assign(machine.links.size(), {link_rate, link_rate});
  constants.link_latency = 2.7e-6;
  return constants;
}

PlanOptions options_of(const std::string& name, const PlanOptions& options) {
  if (name == "auto") return options;
  if (name == "dtensor-costs") {
    ensure(options.machine != nullptr, "DTensor's costs are for a machine");
    return on_machine(with_dtensor_costs(options.machine->machine()), options);
  }
  PlanOptions by_elements;
  by_elements.executor = options.executor;
  by_elements.machine = options.machine;
  by_elements.planner = name == "collectives" ? PlannerKind::wide : find_planner(name).value();
  if (name == "collectives") by_elements.executor.transport = Executor::Transport::collectives;
  return by_elements;
}

Plan plan_of(const std::string& name, const Problem& problem, const PlanOptions& options) {
  Plan plan = name == "xla" ? contenders::plan_by_xla_rules(problem) : make_plan(problem, options_of(name, options));
  if (options.machine != nullptr) require_devices(options.machine->machine(), problem.device_count());
  PlanOptions timing;
  timing.machine = options.machine;
  if (name != "auto") add_time(plan, timing, bytes_of(problem.element_type()));
  return plan;
}

}  // namespace

bool is_contender(std::string_view name) {
  return name == "collectives" || name == "xla" || name == "dtensor-costs" || name == "memcpy" || find_planner(name);
}

Contender make_contender(const std::string& name, const Problem& problem, const PlanOptions& options) {
  if (problem.source().is_partial()) throw InputError("sums are not measured", "retile run adds and checks them");
  if (name == "memcpy") return floor_contender(problem);
  Plan plan = plan_of(name, problem, options);
  const std::vector<std::string> faults = find_faults(plan, {}, 1);
  if (!faults.empty()) throw RuntimeError(name + " made a wrong plan: " + faults.front());
  auto prepare_plan = [problem, movement = plan.movement](Engine& engine) {
    return prepare(engine, movement, problem);
  };
  return {name, std::move(plan), problem.source().inside(problem.device_count()), std::move(prepare_plan)};
}

}  // namespace retile::evaluation
