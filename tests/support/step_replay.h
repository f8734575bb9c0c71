// Steps replayed on boxes: who sends whom how much, and whether that is all that is needed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/types/placement.h"
#include "tests/support/low_level.h"

namespace retile::test {

// One step as it is seen on the devices. No groups for dynslice and allpermute.
struct PhysicalStep {
  CollectiveKind kind;
  Placement before;
  Placement after;
  std::vector<std::vector<Device>> groups;
};

PhysicalStep physical_step(const LowLevelStep& step);
// Groups are along the axes of the step.
PhysicalStep physical_step(const DistributedType& before, const Collective& step);

// The elements that `to` holds after the step and `from` held before it.
std::int64_t elements_between(const PhysicalStep& step, Device from, Device to);

// The elements that app:cost-model counts: what members of a group send each other and themselves,
// and every tile of a permutation.
std::int64_t count_transferred(const PhysicalStep& step);

// What is wrong with the step: a device's new box that its group did not hold, an alltoall with
// unequal pieces, a permutation of other tiles; empty where nothing is.
std::string find_replay_fault(const PhysicalStep& step);

// True where both place the same box on every device; compares box by box.
bool same_boxes(const Placement& a, const Placement& b);

}  // namespace retile::test
