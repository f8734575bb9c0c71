#include "retile/planner/gather_slice.h"

namespace retile {

Sequence gather_and_slice(const Problem& problem) {
  Sequence sequence(problem.source());
  if (same_placement(problem.source(), problem.target())) return sequence;
  for (int i = 0; i < problem.source().rank(); ++i) {
    const std::vector<AxisPart>& axes = problem.source().dimension(i).axes;
    if (!axes.empty()) sequence.append(AllGather{i, axes});
  }
  for (int i = 0; i < problem.target().rank(); ++i) {
    const std::vector<AxisPart>& axes = problem.target().dimension(i).axes;
    if (!axes.empty()) sequence.append(DynSlice{i, axes});
  }
  return sequence;
}

}  // namespace retile
