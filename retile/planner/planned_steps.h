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
  // A lower bound on the cost of any plan of the planner's kind, under cost models with proofs; 0 where nothing is
  // known beyond what every plan costs.
  std::int64_t lower_bound = 0;
};

// Plan the steps of a problem whose source and target place different boxes.
PlannedSteps plan_paper(const TypedProblem& problem, const PlanOptions& options);
PlannedSteps plan_wide(const TypedProblem& problem, const PlanOptions& options);
PlannedSteps plan_direct(const TypedProblem& problem);
PlannedSteps plan_gather_slice(const TypedProblem& problem);
// Plans two exchanges, inside hosts and across, in the order that is faster on the options' machine; one exchange where
// two are impossible. Throws InputError without a machine.
PlannedSteps plan_two_level(const TypedProblem& problem, const PlanOptions& options);

// Plans one exchange between any boxes.
PlannedSteps plan_boxes(const Placement& source, const Placement& target);

// The paper's plan, with its slices joined into one step and its gathers likewise, if it costs less than `cost`.
std::optional<std::vector<Step>> plan_paper_below(const TypedProblem& problem, const PlanOptions& options,
                                                  std::int64_t cost);

// The cheapest of the paper's plans on which devices hold at most `most_held` elements of `array`, which ends before
// the problem's grids do. Nothing where none was found.
std::optional<std::vector<Step>> plan_paper_within(const TypedProblem& problem, const PlanOptions& options,
                                                   const Shape& array, std::int64_t most_held);

}  // namespace retile
