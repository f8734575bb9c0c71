#include "tests/support/step_replay.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "retile/plan/lists.h"
#include "tests/support/plans.h"

namespace retile::test {
namespace {

using Group = std::vector<Device>;

std::string find_partition_fault(const PhysicalStep& step) {
  std::set<Device> seen;
  for (const Group& group : step.groups) {
    for (const Device device : group) {
      if (!seen.insert(device).second) return fmt::format("device {} is in two groups", device);
    }
  }
  const bool all = static_cast<std::int64_t>(seen.size()) == step.before.device_count();
  return all ? "" : "a device is in no group";
}

std::string find_overlap(const PhysicalStep& step, const Group& group) {
  for (const Device a : group) {
    for (const Device b : group) {
      if (a < b && intersect(step.before.box(a), step.before.box(b))) {
        return fmt::format("devices {} and {} of a group held common elements", a, b);
      }
    }
  }
  return {};
}

// Members held disjoint boxes, so what they contribute to a box adds up to it where they cover it.
std::string find_group_fault(const PhysicalStep& step, const Group& group) {
  if (std::string fault = find_overlap(step, group); !fault.empty()) return fault;
  const auto members = static_cast<std::int64_t>(group.size());
  for (const Device to : group) {
    std::int64_t received = 0;
    for (const Device from : group) {
      const std::int64_t piece = elements_between(step, from, to);
      received += piece;
      const bool fair = step.kind != CollectiveKind::alltoall || piece * members == step.before.local_size();
      if (!fair) return fmt::format("device {} sends device {} {} elements", from, to, piece);
    }
    if (received != step.after.local_size()) {
      return fmt::format("device {} lacks part of its box", to);
    }
  }
  return {};
}

std::string find_slice_fault(const PhysicalStep& step) {
  for (Device device = 0; device < step.before.device_count(); ++device) {
    const bool kept = contains(step.before.box(device), step.after.box(device));
    if (!kept) return fmt::format("device {} slices what it did not hold", device);
  }
  return {};
}

std::string find_permutation_fault(const PhysicalStep& step) {
  std::multiset<Shape> before;
  std::multiset<Shape> after;
  for (Device device = 0; device < step.before.device_count(); ++device) {
    before.insert(step.before.offset(device));
    after.insert(step.after.offset(device));
  }
  const bool same = before == after && step.before.local_shape() == step.after.local_shape();
  return same ? "" : "a permutation of other tiles";
}

Groups groups_of(const DistributedType& before, const Collective& step) {
  const CollectiveKind kind = kind_of(step);
  if (kind == CollectiveKind::dynslice || kind == CollectiveKind::allpermute) return {};
  return groups_along(before.mesh(), axes_of(step));
}

}  // namespace

PhysicalStep physical_step(const LowLevelStep& step) {
  return {kind_of(step.collective), placement_of(step.relabelled), placement_of(step.after), groups_of(step)};
}

PhysicalStep physical_step(const DistributedType& before, const Collective& step) {
  return {kind_of(step), Placement(before), Placement(type_after(before, step)), groups_of(before, step)};
}

std::int64_t elements_between(const PhysicalStep& step, Device from, Device to) {
  const auto shared = intersect(step.before.box(from), step.after.box(to));
  return shared ? volume(*shared) : 0;
}

std::int64_t count_transferred(const PhysicalStep& step) {
  std::int64_t total = 0;
  if (step.kind == CollectiveKind::allpermute) {
    for (const DevicePair& pair : match_tiles(tile_table(step.before), tile_table(step.after))) {
      total += elements_between(step, pair.source, pair.target);
    }
  }
  for (const Group& group : step.groups) {
    for (const Device from : group) {
      for (const Device to : group) total += elements_between(step, from, to);
    }
  }
  return total;
}

std::string find_replay_fault(const PhysicalStep& step) {
  const bool sound = is_on_grid(step.after) && is_balanced(step.after);
  if (!sound) return "tiles off the grid or held unequally often";
  if (step.kind == CollectiveKind::dynslice) return find_slice_fault(step);
  if (step.kind == CollectiveKind::allpermute) return find_permutation_fault(step);
  if (std::string fault = find_partition_fault(step); !fault.empty()) return fault;
  for (const Group& group : step.groups) {
    if (std::string fault = find_group_fault(step, group); !fault.empty()) return fault;
  }
  return {};
}

bool same_boxes(const Placement& a, const Placement& b) {
  if (a.device_count() != b.device_count()) return false;
  for (Device device = 0; device < a.device_count(); ++device) {
    if (a.box(device) != b.box(device)) return false;
  }
  return true;
}

}  // namespace retile::test
