#include "tests/support/low_level.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/types/text.h"

namespace retile::test {
namespace {

// The dimension that is cut along all of these axes. Throws InputError where there is none.
int dimension_of(const DistributedType& type, const std::vector<AxisPart>& axes) {
  const std::vector<AxisPart> wanted = split_into_primes(type.mesh(), axes);
  for (int i = 0; i < type.rank(); ++i) {
    const std::vector<AxisPart> held = split_into_primes(type.mesh(), type.dimension(i).axes);
    const bool has_all = std::all_of(wanted.begin(), wanted.end(), [&](const AxisPart& part) {
      return std::find(held.begin(), held.end(), part) != held.end();
    });
    if (has_all && !wanted.empty()) return i;
  }
  throw InputError("no dimension is cut along all of these axes", fmt::format("the type is {}", to_string(type)));
}

// The type with the axes moved to the minor end of the dimension, in the order given.
DistributedType move_to_front(const DistributedType& type, int dimension, const std::vector<AxisPart>& axes) {
  std::vector<Dimension> dimensions = type.dimensions();
  Dimension& changed = dimensions[static_cast<std::size_t>(dimension)];
  std::vector<AxisPart> front = split_into_primes(type.mesh(), axes);
  for (const AxisPart& part : split_into_primes(type.mesh(), changed.axes)) {
    if (std::find(front.begin(), front.end(), part) == front.end()) front.push_back(part);
  }
  changed.axes = merge_neighbours(front);
  return {type.mesh(), std::move(dimensions)};
}

LowLevelStep make_step(DeviceAssignment relabelled, Collective collective) {
  DeviceAssignment after{relabelled.map, type_after(relabelled.type, collective)};
  return {std::move(relabelled), std::move(collective), std::move(after)};
}

// Parts from `available`, in order, whose sizes make the factor.
std::vector<AxisPart> choose_parts(const std::vector<AxisPart>& available, std::int64_t factor) {
  std::vector<AxisPart> chosen;
  for (const AxisPart& part : available) {
    if (part.size == 1 || factor % part.size != 0) continue;
    chosen.push_back(part);
    factor /= part.size;
  }
  if (factor != 1) throw InputError("the axes do not supply this factor", {});
  return chosen;
}

}  // namespace

DeviceMap DeviceMap::identity(std::int64_t device_count) {
  std::vector<Device> devices(static_cast<std::size_t>(device_count));
  std::iota(devices.begin(), devices.end(), Device{0});
  return DeviceMap(std::move(devices));
}

DeviceMap::DeviceMap(std::vector<Device> devices) : devices_(std::move(devices)), logicals_(devices_.size(), -1) {
  for (std::size_t logical = 0; logical < devices_.size(); ++logical) {
    const Device device = devices_[logical];
    const bool in_range = device >= 0 && device < device_count();
    if (!in_range || logicals_[static_cast<std::size_t>(device)] >= 0) {
      throw InputError(fmt::format("device {} is out of range or stands twice in a device map", device), {});
    }
    logicals_[static_cast<std::size_t>(device)] = static_cast<Device>(logical);
  }
}

DeviceAssignment plain(const DistributedType& type) { return {DeviceMap::identity(type.mesh().device_count()), type}; }
DeviceAssignment plain(const char* mesh, const char* type) { return plain(parse_type(type, parse_mesh(mesh))); }

Placement placement_of(const DeviceAssignment& assignment) {
  const DistributedType& type = assignment.type;
  if (type.rank() == 0) return Placement(type);
  const auto rank = static_cast<std::size_t>(type.rank());
  std::vector<std::int64_t> corners(static_cast<std::size_t>(assignment.map.device_count()) * rank);
  for (Device device = 0; device < assignment.map.device_count(); ++device) {
    type.base_offset(assignment.map.logical(device),
                     std::span(corners).subspan(static_cast<std::size_t>(device) * rank, rank));
  }
  return {type.global_shape(), type.local_shape(), std::move(corners)};
}

bool are_equivalent(const DeviceAssignment& a, const DeviceAssignment& b) { return placement_of(a) == placement_of(b); }

DeviceAssignment relabel(const DeviceAssignment& assignment, const DistributedType& type) {
  const DistributedType& old_type = assignment.type;
  const bool same_shapes = old_type.global_shape() == type.global_shape() &&
                           old_type.local_shape() == type.local_shape() &&
                           old_type.mesh().device_count() == type.mesh().device_count();
  if (!same_shapes) {
    throw InputError(fmt::format("{} cannot be relabelled as {}", to_string(old_type), to_string(type)),
                     "local shape, global shape and number of devices must agree");
  }
  // The logical coordinates at which each tile stands, in order, before and after.
  std::map<Shape, std::vector<Device>> holders;
  for (Device logical = 0; logical < assignment.map.device_count(); ++logical) {
    holders[old_type.base_offset(logical)].push_back(logical);
  }
  std::map<Shape, std::size_t> taken;
  std::vector<Device> devices(static_cast<std::size_t>(assignment.map.device_count()));
  for (Device logical = 0; logical < assignment.map.device_count(); ++logical) {
    const Shape corner = type.base_offset(logical);
    devices[static_cast<std::size_t>(logical)] = assignment.map.device(holders.at(corner)[taken[corner]++]);
  }
  return {DeviceMap(std::move(devices)), type};
}

LowLevelStep allgather(const DeviceAssignment& before, const std::vector<AxisPart>& axes) {
  const int dimension = dimension_of(before.type, axes);
  return make_step(relabel(before, move_to_front(before.type, dimension, axes)), AllGather{dimension, axes});
}

LowLevelStep alltoall(const DeviceAssignment& before, const std::vector<AxisPart>& axes, int to) {
  const int from = dimension_of(before.type, axes);
  return make_step(relabel(before, move_to_front(before.type, from, axes)), AllToAll{from, to, axes});
}

LowLevelStep dynslice(const DeviceAssignment& before, int dimension, const std::vector<AxisPart>& axes) {
  return make_step(before, DynSlice{dimension, axes});
}

LowLevelStep allpermute(const DeviceAssignment& before, const DeviceAssignment& after) {
  // Equal shapes are all that a bijection of devices needs: each tile has as many holders on both sides.
  relabel(before, after.type);
  return {before, AllPermute{after.type}, after};
}

std::vector<std::vector<Device>> groups_of(const LowLevelStep& step) {
  const CollectiveKind kind = kind_of(step.collective);
  if (kind == CollectiveKind::dynslice || kind == CollectiveKind::allpermute) return {};
  const DeviceMap& map = step.relabelled.map;
  const Mesh& mesh = step.relabelled.type.mesh();
  // A group's members have one base: the logical number with the step's coordinates set to 0.
  std::map<Device, std::vector<Device>> groups;
  for (Device logical = 0; logical < map.device_count(); ++logical) {
    Device base = logical;
    for (const AxisPart& part : axes_of(step.collective)) {
      base -= mesh.coordinate(logical, part) * mesh.stride(part);
    }
    groups[base].push_back(map.device(logical));
  }
  std::vector<std::vector<Device>> result;
  for (auto& [base, members] : groups) result.push_back(std::move(members));
  return result;
}

LowLevelStep lower(const DeviceAssignment& before, const WeakStep& step) {
  const Mesh& mesh = before.type.mesh();
  type_after(mesh, weaken(before.type), step);  // throws where the step does not apply
  const auto held = [&] { return split_into_primes(mesh, before.type.dimension(step.dimension).axes); };
  switch (step.kind) {
    case CollectiveKind::dynslice:
      return dynslice(before, step.dimension, choose_parts(before.type.free_primes(), step.factor));
    case CollectiveKind::allgather:
      return allgather(before, choose_parts(held(), step.factor));
    case CollectiveKind::alltoall:
      return alltoall(before, choose_parts(held(), step.factor), step.to);
    case CollectiveKind::allpermute:
      break;
  }
  throw InternalError("a weak step is never a permutation");
}

LowLevelSequence lower(const DeviceAssignment& before, const WeakSequence& sequence) {
  LowLevelSequence lowered{before, {}};
  for (const WeakStep& step : sequence.steps()) {
    const bool acts = step.factor > 1;  // not on axes of size 1
    if (acts) lowered.steps.push_back(lower(lowered.target(), step));
  }
  return lowered;
}

LowLevelSequence permute_to(LowLevelSequence sequence, const DeviceAssignment& target) {
  if (!are_equivalent(sequence.target(), target)) {
    sequence.steps.push_back(allpermute(sequence.target(), target));
  }
  return sequence;
}

WeakSequence lift(const LowLevelSequence& sequence) {
  WeakSequence weak(sequence.source.type.mesh(), weaken(sequence.source.type));
  for (const LowLevelStep& step : sequence.steps) {
    if (kind_of(step.collective) == CollectiveKind::allpermute) continue;  // may lead to another mesh
    const WeakSequence single = weaken(Sequence(step.relabelled.type, {step.collective}));
    for (const WeakStep& weak_step : single.steps()) weak.append(weak_step);
  }
  return weak;
}

std::int64_t cost(const LowLevelSequence& sequence) {
  std::int64_t total = 0;
  for (const LowLevelStep& step : sequence.steps) {
    const auto sum = checked_add(total, cost(kind_of(step.collective), step.after.type.local_size()));
    if (!sum) throw InputError("the cost of the sequence does not fit in 63 bits", {});
    total = *sum;
  }
  return total;
}

}  // namespace retile::test
