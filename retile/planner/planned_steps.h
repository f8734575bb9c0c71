// The planners by themselves: each makes the steps of a plan, and what it proved of their cost.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "retile/plan/plan.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

struct PlannedSteps {
  std::vector<Step> steps;
  // On the cost of any plan of the planner's kind, under models that have the proofs; 0 where nothing is known.
  std::int64_t lower_bound = 0;
};

// Source and target place different boxes.
PlannedSteps plan_paper(const TypedProblem& problem, const PlanOptions& options);
PlannedSteps plan_wide(const TypedProblem& problem, const PlanOptions& options);
PlannedSteps plan_direct(const TypedProblem& problem);
PlannedSteps plan_gather_slice(const TypedProblem& problem);

// Between any boxes. No plan costs less under models with proofs: the last step that moves anything leads to boxes at
// least as large as the target's, and costs as much.
PlannedSteps plan_boxes(const Placement& source, const Placement& target);

// The paper's plan with its slices joined, and its gathers, where it costs less than `cost`.
std::optional<std::vector<Step>> plan_paper_below(const TypedProblem& problem, const PlanOptions& options,
                                                  std::int64_t cost);

}  // namespace retile
