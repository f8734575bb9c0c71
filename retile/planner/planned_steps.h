// The single planners: each makes the steps of a plan, and says what it proved of their cost.
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
  // On the cost of any plan of the planner's kind, under models that have the proofs; 0 where nothing is known beyond
  // what every plan costs.
  std::int64_t lower_bound = 0;
};

// Source and target place different boxes.
PlannedSteps plan_paper(const TypedProblem& problem, const PlanOptions& options);
PlannedSteps plan_wide(const TypedProblem& problem, const PlanOptions& options);
PlannedSteps plan_direct(const TypedProblem& problem);
PlannedSteps plan_gather_slice(const TypedProblem& problem);
// The faster of both orders on the options' machine; one exchange where there is none. Throws InputError without a
// machine.
PlannedSteps plan_two_level(const TypedProblem& problem, const PlanOptions& options);

// Between any boxes.
PlannedSteps plan_boxes(const Placement& source, const Placement& target);

// The paper's plan with its slices joined, and its gathers, where it costs less than `cost`.
std::optional<std::vector<Step>> plan_paper_below(const TypedProblem& problem, const PlanOptions& options,
                                                  std::int64_t cost);

// The cheapest of the paper's plans whose devices hold no more than `most_held` elements of an array that ends before
// the grids of the problem do. Nothing where none was found.
std::optional<std::vector<Step>> plan_paper_within(const TypedProblem& problem, const PlanOptions& options,
                                                   const Shape& array, std::int64_t most_held);

}  // namespace retile
