// Runs of elements that a device holds along each dimension, and the parts that they make up together.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/placement.h"

namespace retile {

// Neighbouring elements of a dimension that a device holds: where the first one is in the device's own array, along
// this dimension, and how far from each to the next.
struct HeldRun {
  Interval interval;
  std::int64_t start = 0;
  std::int64_t step = 1;
};

// A device's own array: its memory without gaps.
struct LocalArray {
  std::vector<std::vector<HeldRun>> runs;  // by dimension
  Shape shape;
  std::int64_t offset = 0;  // elements from the start of the device's memory
};

// Runs that lie one after the other.
std::vector<HeldRun> joined_runs(const std::vector<Interval>& intervals);

// All combinations of runs, as boxes of an array whose dimensions are seen in factors (major to minor; none: one for
// each dimension). The memory's dimensions are in this order, outermost first; none: as they come. Runs that are alike
// but for the outer factors, one as far from the next in memory as all others, become one box.
std::vector<Part> parts_of(const LocalArray& array, const std::vector<int>& order, const std::vector<Shape>& view);

}  // namespace retile
