#include "retile/planner/gather_slice.h"

#include <vector>

namespace retile {
namespace {

// Axes of size 1 cut nothing: a step along them alone would cost something and do nothing.
std::vector<AxisPart> cutting_axes(const Dimension& dimension) {
  std::vector<AxisPart> axes = dimension.axes;
  std::erase_if(axes, [](const AxisPart& part) { return part.size == 1; });
  return axes;
}

}  // namespace

Sequence gather_and_slice(const Problem& problem) {
  Sequence sequence(problem.source());
  if (same_placement(problem.source(), problem.target())) return sequence;
  for (int i = 0; i < problem.source().rank(); ++i) {
    const Dimension& dimension = problem.source().dimension(i);
    if (!cutting_axes(dimension).empty()) sequence.append(AllGather{i, dimension.axes});
  }
  for (int i = 0; i < problem.target().rank(); ++i) {
    const std::vector<AxisPart> axes = cutting_axes(problem.target().dimension(i));
    if (!axes.empty()) sequence.append(DynSlice{i, axes});
  }
  return sequence;
}

}  // namespace retile
