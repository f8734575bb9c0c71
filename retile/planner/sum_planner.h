// Plans for sums, maxima and minima, made of plans for the stacked parts.
#pragma once

#include <functional>
#include <optional>

#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile {

// A plan from the stacked parts to pieces with all their parts, which are then combined, and a plan from the combined
// pieces to the target.
struct SumPlan {
  Plan first;
  std::optional<Plan> second;  // nothing where nothing is combined
  ReduceStep reduce;
};

// Plans between layouts that are not partial, in the array's own dimensions.
using PlanPart = std::function<Plan(const Layout& source, const Layout& target)>;

// The cheapest of several plans for a sum whose devices hold no more than the larger of source and target, or little
// more where tiles do not divide.
SumPlan plan_sum(const Problem& problem, const PlanPart& plan_part);

// A lower bound on the elements that some device receives. Parts are combined pair by pair, and each element of the
// target is sent to all but one of the devices that end with it. Some device receives at least the average of this
// total.
std::int64_t sum_floor(const Problem& problem);

// A lower bound on the cost of such a plan under the paper's model, whatever the pieces.
std::int64_t sum_bound(const Problem& problem);

}  // namespace retile
