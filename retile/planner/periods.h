// Periods: after how many elements block-cyclic ends repeat, so that one period stands for all.
#pragma once

#include <vector>

#include "retile/planner/problem.h"

namespace retile {

// A view of the problem's array: each dimension that an end deals out in blocks is seen as whole periods of both ends,
// times the elements of a period. Elements at the same place of every period then form one box, so the number of boxes
// is that of one period and does not grow with the blocks. The last period may reach beyond the array. Empty where no
// dimension has two periods.
std::vector<Shape> find_periods(const Problem& problem);

}  // namespace retile
