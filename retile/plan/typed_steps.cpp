#include "retile/plan/typed_steps.h"

#include <map>
#include <utility>

#include "retile/base/error.h"

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

std::vector<DevicePair> match_tiles(const Placement& before, const Placement& after) {
  std::map<Shape, std::vector<Device>> holders;  // devices that do not keep their tile
  std::vector<DevicePair> pairs(static_cast<std::size_t>(after.device_count()));
  std::vector<Device> seekers;
  for (Device device = after.device_count() - 1; device >= 0; --device) {
    if (before.offset(device) == after.offset(device)) {
      pairs[static_cast<std::size_t>(device)] = {device, device};
    } else {
      holders[before.offset(device)].push_back(device);
      seekers.push_back(device);
    }
  }
  for (; !seekers.empty(); seekers.pop_back()) {  // both lists ascend from their ends
    const Device target = seekers.back();
    std::vector<Device>& available = holders[after.offset(target)];
    ensure(!available.empty(), "a permutation finds every tile as often as it needs it");
    pairs[static_cast<std::size_t>(target)] = {available.back(), target};
    available.pop_back();
  }
  return pairs;
}

}  // namespace retile
