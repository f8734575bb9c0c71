// Lower bounds for arrays that end before their grids do.
#pragma once

#include <cstdint>

#include "retile/planner/problem.h"

namespace retile {

// A lower bound, under the paper's weights, on plans between the types whose boxes are clipped to the array. `bound` is
// the lower bound on the whole grid. Some step must move something (docs/theory.md, Clipped plans).
std::int64_t clipped_bound(const TypedProblem& padded, const Shape& array, std::int64_t bound);

}  // namespace retile
