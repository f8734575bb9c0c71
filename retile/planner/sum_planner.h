// Plans for sums and the like, made of plans for the stacked parts.
#pragma once

#include <functional>
#include <optional>

#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile {

// From the stacked parts to all parts of some pieces, which are then combined, and from there to the target.
struct SumPlan {
  Plan first;
  std::optional<Plan> second;  // nothing where nothing is combined
  ReduceStep reduce;
};

// Plans between layouts of which none is partial, in the array's own dimensions.
using PlanPart = std::function<Plan(const Layout& source, const Layout& target)>;

// The cheapest of some that hold no more than the larger of source and target, or little more where tiles do not
// divide.
SumPlan plan_sum(const Problem& problem, const PlanPart& plan_part);

// The most elements that some device must receive. Parts are combined pair by pair, and each element of the target is
// sent to every device but one that ends with it: so much arrives in all, and at least the average somewhere.
std::int64_t sum_floor(const Problem& problem);

// What such a plan costs at least under the paper's model, whatever the pieces.
std::int64_t sum_bound(const Problem& problem);

}  // namespace retile
