// Frames: a problem whose layouts are no types, as a problem between types of a larger array, for planners that work on
// grids.
#pragma once

#include <optional>
#include <vector>

#include "retile/planner/problem.h"

namespace retile {

// Types of an array that is at least as large as the problem's, perhaps with dimensions split into factors. Clipped to
// `shape`, their boxes are the problem's.
struct Frame {
  DistributedType source;
  DistributedType target;
  Shape shape;              // of the problem's array, in the types' dimensions
  std::vector<Shape> view;  // the types' dimensions that make up each of the problem's; none where they are the same
};

// The problem's frame. There is one where both ends see the dimensions in factors with a common refinement, have their
// tiles on one padded grid, and live on meshes whose digits number the world's devices alike.
std::optional<Frame> find_frame(const Problem& problem);

}  // namespace retile
