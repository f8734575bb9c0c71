// Lower bounds for arrays that end before their grids do.
#pragma once

#include <cstdint>

#include "retile/planner/problem.h"

namespace retile {

// What no plan between the types costs under the paper's weights where its boxes are clipped to the array, if none
// costs less than `bound` on the whole grid and some step must move something (docs/theory.md, Clipped plans).
std::int64_t clipped_bound(const TypedProblem& padded, const Shape& array, std::int64_t bound);

}  // namespace retile
