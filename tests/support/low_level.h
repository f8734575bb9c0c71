// Low-level collectives (fig:low-level-semantics): they act on device assignments, where a device
// map says which device stands at which logical coordinates, and may change from step to step.
#pragma once

#include <string>
#include <vector>

#include "retile/collectives/collective.h"
#include "retile/types/distributed_type.h"
#include "retile/types/placement.h"
#include "tests/support/weak.h"

namespace retile::test {

// φ: logical coordinates, by their row-major number, to devices. A bijection by construction.
class DeviceMap {
 public:
  static DeviceMap identity(std::int64_t device_count);
  // Throws InputError where the table is no permutation of 0, 1, ….
  explicit DeviceMap(std::vector<Device> devices);

  std::int64_t device_count() const { return static_cast<std::int64_t>(devices_.size()); }
  Device device(Device logical) const { return devices_[static_cast<std::size_t>(logical)]; }
  Device logical(Device device) const { return logicals_[static_cast<std::size_t>(device)]; }

  bool operator==(const DeviceMap& other) const { return devices_ == other.devices_; }

 private:
  std::vector<Device> devices_;
  std::vector<Device> logicals_;  // the inverse
};

// ⟨φ, T⟦τ⟧⟩ over the mesh of τ.
struct DeviceAssignment {
  DeviceMap map;
  DistributedType type;
};

// The type on devices in their own order.
DeviceAssignment plain(const DistributedType& type);
DeviceAssignment plain(const char* mesh, const char* type);  // "x=2,y=2", "[2{x,y}8]"

// What is physically there: d ↦ T⟦τ⟧(φ⁻¹(d)).
Placement placement_of(const DeviceAssignment& assignment);

// Equal placements, whatever meshes and maps describe them.
bool are_equivalent(const DeviceAssignment& a, const DeviceAssignment& b);

// The equivalent assignment whose type is `type`: β′ ∘ φ′⁻¹ = β ∘ φ⁻¹ read as a definition of φ′.
// The type may live on another mesh with as many devices. Replicas keep their order, so relabelling
// to the same type changes nothing. Throws InputError where local or global shapes differ.
DeviceAssignment relabel(const DeviceAssignment& assignment, const DistributedType& type);

// ⟨φ, β⟩ ⇒ ⟨φ′, β″⟩: a relabelling, in which no data moves, and a typed collective under φ′. For a
// permutation `after` has its own map, and pairs of devices exchange tiles.
struct LowLevelStep {
  DeviceAssignment relabelled;
  Collective collective;
  DeviceAssignment after;
};

// Each rule throws InputError where it does not apply. Axes of allgather and alltoall may stand
// anywhere in their dimension, and are moved to its minor end, in the order given.
LowLevelStep allgather(const DeviceAssignment& before, const std::vector<AxisPart>& axes);
LowLevelStep alltoall(const DeviceAssignment& before, const std::vector<AxisPart>& axes, int to);
LowLevelStep dynslice(const DeviceAssignment& before, int dimension, const std::vector<AxisPart>& axes);
LowLevelStep allpermute(const DeviceAssignment& before, const DeviceAssignment& after);

// The devices that communicate in a step: those whose logical coordinates differ only along the
// step's axes. Empty for dynslice and allpermute.
std::vector<std::vector<Device>> groups_of(const LowLevelStep& step);

struct LowLevelSequence {
  DeviceAssignment source;
  std::vector<LowLevelStep> steps;

  const DeviceAssignment& target() const { return steps.empty() ? source : steps.back().after; }
};

// lem:lowering and thm:lowering: a weak sequence as low-level steps from a given start, with no
// permutation. Axes are taken as they come, the most minor ones of a dimension first.
LowLevelStep lower(const DeviceAssignment& before, const WeakStep& step);
LowLevelSequence lower(const DeviceAssignment& before, const WeakSequence& sequence);

// eq:final-allpermutate: adds the permutation that leads to the target, where one is needed.
LowLevelSequence permute_to(LowLevelSequence sequence, const DeviceAssignment& target);

// lem:lifting: the weak sequence of the steps that are no permutations.
WeakSequence lift(const LowLevelSequence& sequence);

std::int64_t cost(const LowLevelSequence& sequence);

}  // namespace retile::test
