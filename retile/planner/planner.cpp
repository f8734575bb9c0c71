#include "retile/planner/planner.h"

#include <algorithm>
#include <chrono>

#include "retile/plan/typed_steps.h"
#include "retile/planner/gather_slice.h"

namespace retile {
namespace {

Plan plan_of_sequence(const Problem& problem, const Sequence& sequence) {
  Plan plan{problem.id(), problem.source(), problem.target(), {}, {}, {}, 0, typed_steps(sequence)};
  plan.memory.source = problem.source().local_size();
  plan.memory.target = problem.target().local_size();
  plan.memory.bound = std::max(plan.memory.source, plan.memory.target);
  plan.memory.peak = height(sequence);
  return plan;
}

}  // namespace

const char* name_of(PlannerKind) { return "gather-slice"; }

std::optional<PlannerKind> find_planner(std::string_view name) {
  if (name == name_of(PlannerKind::gather_slice)) return PlannerKind::gather_slice;
  return std::nullopt;
}

Plan make_plan(const Problem& problem, const PlanOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = plan_of_sequence(problem, gather_and_slice(problem));
  plan.planner = name_of(options.planner);
  price(plan, options.cost_model);
  // Nothing more than the floor is proved here: a planner that searches knows better bounds.
  plan.cost.floor = received_floor(problem.source(), problem.target());
  plan.cost.lower_bound = plan.cost.floor;
  plan.cost.optimal = plan.cost.total == plan.cost.lower_bound;
  plan.planning_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

}  // namespace retile
