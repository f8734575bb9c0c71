#include "retile/plan/typed_steps.h"

#include <utility>

namespace retile {
namespace {

Step typed_step(const DistributedType& before, const Collective& collective, const DistributedType& after) {
  Step step{StepOp::allpermute, {}, {}, {}, {}, before.local_shape(), Placement(after), 0};
  const std::int64_t factor = factor_of(collective);
  if (const auto* slice = std::get_if<DynSlice>(&collective)) {
    step.op = StepOp::dynslice;
    step.moves = {{-1, slice->dimension, factor}};
  } else if (const auto* move = std::get_if<AllToAll>(&collective)) {
    step.op = StepOp::alltoall;
    step.moves = {{move->from, move->to, factor}};
    step.groups = DeviceGroups::along(move->axes);
  } else if (const auto* gather = std::get_if<AllGather>(&collective)) {
    step.op = StepOp::allgather;
    step.moves = {{gather->dimension, -1, factor}};
    step.groups = DeviceGroups::along(gather->axes);
  } else {
    step.pairs = match_tiles(Placement(before), step.after);
  }
  return step;
}

}  // namespace

std::vector<Step> typed_steps(const Sequence& sequence) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    steps.push_back(typed_step(sequence.types()[i], sequence.steps()[i], sequence.types()[i + 1]));
  }
  return steps;
}

}  // namespace retile
