// Runs of elements that a device holds along each dimension, and the parts that they make up together.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/layout.h"
#include "retile/types/placement.h"

namespace retile {

// Neighbouring elements of a dimension that a device holds. `start` is the first one's index in the device's own array
// along this dimension, `step` the distance from each element to the next.
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

// The own array of the device with this number in the layout's mesh. The array as a whole continues by these margins
// (none: nowhere). Ghost zones that are left out have memory all the same.
LocalArray local_array(const MeshLayout& layout, Device index, const std::vector<Halo>& margins, bool has_ghosts);

// The intervals as runs that lie one after the other.
std::vector<HeldRun> joined_runs(const std::vector<Interval>& intervals);

// All combinations of runs, as boxes of an array whose dimensions are seen in the factors of `view` (major to minor;
// none: one factor for each dimension). `order` lists the memory's dimensions, outermost first; none: as they come.
// Runs that differ only in the outer factors and lie at equal distances in memory become one box.
std::vector<Part> parts_of(const LocalArray& array, const std::vector<int>& order, const std::vector<Shape>& view);

}  // namespace retile
