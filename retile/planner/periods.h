// Periods: where block-cyclic ends repeat, so that one period stands for all.
#pragma once

#include <vector>

#include "retile/planner/problem.h"

namespace retile {

// A view of the problem's array in whole periods of both ends and what is in one of them, for each dimension that an
// end deals out in blocks. What lies in the same place of every period is one box then, and boxes are as many as in one
// period, and not as blocks. The last period may reach beyond the array. None where no dimension has two periods.
std::vector<Shape> find_periods(const Problem& problem);

}  // namespace retile
