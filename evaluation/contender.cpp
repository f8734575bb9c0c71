#include "evaluation/contender.h"

#include <utility>

#include "retile/base/error.h"
#include "retile/contenders/xla_rules.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"

namespace retile::evaluation {
namespace {

std::unique_ptr<PreparedRun> prepare(Engine& engine, const Movement& movement, const Problem& problem) {
  return engine.prepare(movement, bytes_of(problem.element_type()));
}

// Every device copies its target tile once: a movement without steps.
Contender floor_contender(const Problem& problem) {
  const Placement target = problem.target().placement(problem.device_count());
  return {"memcpy", std::nullopt, target, [problem, target](Engine& engine) {
            return prepare(engine, {world_mesh(problem.device_count()), target, {}}, problem);
          }};
}

Plan plan_of(const std::string& name, const Problem& problem, const Executor& executor) {
  if (name == "xla") return contenders::plan_by_xla_rules(problem);
  PlanOptions options;
  options.planner = find_planner(name).value();
  options.executor = executor;
  return make_plan(problem, options);
}

}  // namespace

bool is_contender(std::string_view name) { return name == "xla" || name == "memcpy" || find_planner(name); }

Contender make_contender(const std::string& name, const Problem& problem, const Executor& executor) {
  if (problem.source().is_partial()) throw InputError("sums are not measured", "retile run adds and checks them");
  if (name == "memcpy") return floor_contender(problem);
  Plan plan = plan_of(name, problem, executor);
  const std::vector<std::string> faults = find_faults(plan, {}, 1);
  if (!faults.empty()) throw RuntimeError(name + " made a wrong plan: " + faults.front());
  auto prepare_plan = [problem, movement = plan.movement](Engine& engine) {
    return prepare(engine, movement, problem);
  };
  return {name, std::move(plan), problem.source().placement(problem.device_count()), std::move(prepare_plan)};
}

}  // namespace retile::evaluation
