#include "tests/support/assignment_search.h"

#include <algorithm>
#include <utility>

#include "retile/base/error.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

std::string key_of(const DeviceAssignment& assignment) {
  std::string key = to_string(assignment.type);
  for (Device logical = 0; logical < assignment.map.device_count(); ++logical) {
    key += " " + std::to_string(assignment.map.device(logical));
  }
  return key;
}

// Adds every map that continues `devices` and gives the same placement: replicas of a tile change places.
void add_equivalent_maps(const DeviceAssignment& assignment, std::vector<Device>& devices,
                         std::vector<DeviceMap>& maps) {
  const auto logical = static_cast<Device>(devices.size());
  if (logical == assignment.map.device_count()) {
    maps.emplace_back(devices);
    return;
  }
  for (Device other = 0; other < assignment.map.device_count(); ++other) {
    const Device device = assignment.map.device(other);
    const bool taken = std::find(devices.begin(), devices.end(), device) != devices.end();
    if (taken || assignment.type.base_offset(logical) != assignment.type.base_offset(other)) continue;
    devices.push_back(device);
    add_equivalent_maps(assignment, devices, maps);
    devices.pop_back();
  }
}

std::vector<DeviceMap> equivalent_maps(const DeviceAssignment& assignment) {
  std::vector<Device> devices;
  std::vector<DeviceMap> maps;
  add_equivalent_maps(assignment, devices, maps);
  return maps;
}

// The rule's step with every relabelling that it allows.
std::vector<LowLevelStep> with_every_map(const LowLevelStep& step) {
  std::vector<LowLevelStep> steps;
  for (const DeviceMap& map : equivalent_maps(step.relabelled)) {
    steps.push_back({{map, step.relabelled.type}, step.collective, {map, step.after.type}});
  }
  return steps;
}

std::vector<std::vector<AxisPart>> choices_of_axes(const Mesh& mesh, AxesPerStep axes) {
  const DistributedType uncut = DistributedType::replicated(mesh, {mesh.device_count()});
  std::vector<std::vector<AxisPart>> choices;
  for (const Collective& slice : multi_axis_collectives(uncut)) {
    if (axes == AxesPerStep::any || axes_of(slice).size() == 1) choices.push_back(axes_of(slice));
  }
  return choices;
}

std::vector<LowLevelStep> steps_from(const DeviceAssignment& before,
                                     const std::vector<std::vector<AxisPart>>& choices) {
  std::vector<LowLevelStep> steps;
  const auto add = [&](auto rule) {
    try {
      for (LowLevelStep& step : with_every_map(rule())) steps.push_back(std::move(step));
    } catch (const InputError&) {  // the rule does not apply
    }
  };
  for (const std::vector<AxisPart>& axes : choices) {
    const bool free =
        std::none_of(axes.begin(), axes.end(), [&](const AxisPart& axis) { return before.type.uses(axis); });
    if (!free) add([&] { return allgather(before, axes); });
    for (int i = 0; i < before.type.rank(); ++i) {
      if (!free) add([&] { return alltoall(before, axes, i); });
      if (!find_fault(before.type, DynSlice{i, axes})) steps.push_back(dynslice(before, i, axes));  // keeps its map
    }
  }
  return steps;
}

std::vector<DeviceMap> all_maps(std::int64_t count) {
  std::vector<Device> devices;
  for (Device device = 0; device < count; ++device) devices.push_back(device);
  std::vector<DeviceMap> maps;
  do {
    maps.emplace_back(devices);
  } while (std::next_permutation(devices.begin(), devices.end()));
  return maps;
}

std::int64_t cost_of(const LowLevelStep& step) { return cost(kind_of(step.collective), step.after.type.local_size()); }

}  // namespace

AssignmentSearch::AssignmentSearch(const DistributedType& source, AxesPerStep axes)
    : source_{DeviceMap::identity(source.mesh().device_count()), source},
      axes_(choices_of_axes(source.mesh(), axes)),
      types_(all_prime_types(source.mesh(), source.global_shape())) {
  reach(0, source_, {}, std::nullopt);
  while (!open_.empty()) {
    const std::string key = open_.top().second;
    open_.pop();
    Reached& nearest = reached_.at(key);
    if (std::exchange(nearest.settled, true)) continue;
    expand(key, nearest);
    permute(key, nearest);
  }
}

void AssignmentSearch::expand(const std::string& key, const Reached& from) {
  for (LowLevelStep& step : steps_from(from.assignment, axes_)) {
    const DeviceAssignment after = step.after;
    const std::int64_t total = from.cost + cost_of(step);
    reach(total, after, key, std::move(step));
  }
}

void AssignmentSearch::permute(const std::string& key, const Reached& from) {
  if (!permuted_.insert(from.assignment.type.local_shape()).second) return;
  for (const DistributedType& type : types_) {
    if (weaken(type) != weaken(from.assignment.type)) continue;
    for (const DeviceMap& map : all_maps(from.assignment.map.device_count())) {
      const DeviceAssignment after{map, type};
      reach(from.cost + type.local_size(), after, key, allpermute(from.assignment, after));
    }
  }
}

void AssignmentSearch::reach(std::int64_t cost, const DeviceAssignment& assignment, const std::string& previous,
                             std::optional<LowLevelStep> step) {
  const std::string key = key_of(assignment);
  const auto known = reached_.find(key);
  if (known != reached_.end() && known->second.cost <= cost) return;
  reached_.insert_or_assign(key, Reached{cost, false, assignment, previous, std::move(step)});
  open_.emplace(cost, key);
}

LowLevelSequence AssignmentSearch::cheapest(const DistributedType& target) const {
  const DeviceAssignment wanted{source_.map, target};
  const Reached* best = nullptr;
  for (const auto& [key, entry] : reached_) {
    const bool better = best == nullptr || entry.cost < best->cost;
    if (better && are_equivalent(entry.assignment, wanted)) best = &entry;
  }
  ensure(best != nullptr, "every placement can be reached");
  LowLevelSequence sequence{source_, {}};
  for (const Reached* entry = best; entry->step; entry = &reached_.at(entry->previous)) {
    sequence.steps.push_back(*entry->step);
  }
  std::reverse(sequence.steps.begin(), sequence.steps.end());
  return sequence;
}

}  // namespace retile::test
