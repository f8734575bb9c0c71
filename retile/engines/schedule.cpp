#include "retile/engines/schedule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "retile/plan/lists.h"

namespace retile {
namespace {

// Where each device's entries begin in a list that is ordered by device, and the end.
template <typename DeviceOf>
std::vector<std::size_t> first_by_device(std::size_t entries, std::int64_t devices, DeviceOf device_of) {
  std::vector<std::size_t> first(static_cast<std::size_t>(devices) + 1);
  for (std::size_t i = 0; i < entries; ++i) ++first[static_cast<std::size_t>(device_of(i)) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

// Boxes without what the boxes before them hold.
std::vector<Transfer> make_disjoint(std::vector<Transfer> pieces) {
  std::vector<Transfer> disjoint;
  for (Transfer& piece : pieces) {
    std::vector<Box> left{piece.box};
    for (std::size_t i = 0; i < disjoint.size() && !left.empty(); ++i) {
      std::vector<Box> rest;
      for (const Box& box : left) {
        for (Box& part : subtract(box, disjoint[i].box)) rest.push_back(std::move(part));
      }
      left = std::move(rest);
    }
    for (Box& box : left) disjoint.push_back({piece.from, piece.to, std::move(box)});
  }
  return disjoint;
}

// What the devices keep and what they are sent, by the devices that get it. An exchange may send an element twice; it
// is copied once.
std::vector<Transfer> exchange_pieces(const ExchangeStep& step, const Placement& held, const Placement& after) {
  const std::int64_t devices = held.device_count();
  std::vector<std::vector<Transfer>> pieces(static_cast<std::size_t>(devices));
  for (Device device = 0; device < devices; ++device) {
    const std::optional<Box> kept = intersect(held.box(device), after.box(device));
    if (kept) pieces[static_cast<std::size_t>(device)].push_back({device, device, *kept});
  }
  for (const Transfer& transfer : *step.transfers) pieces[static_cast<std::size_t>(transfer.to)].push_back(transfer);
  std::vector<Transfer> all;
  for (std::vector<Transfer>& list : pieces) {
    std::int64_t elements = 0;
    for (const Transfer& piece : list) elements += volume(piece.box);
    if (elements != after.local_size()) list = make_disjoint(std::move(list));
    std::move(list.begin(), list.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<Transfer> permuted_pieces(const PermuteStep& step, const Placement& after) {
  std::vector<Transfer> pieces;
  for (const DevicePair& pair : *step.pairs) pieces.push_back({pair.source, pair.target, after.box(pair.target)});
  std::sort(pieces.begin(), pieces.end(), [](const Transfer& a, const Transfer& b) { return a.to < b.to; });
  return pieces;
}

}  // namespace

Stage::Stage(const Movement& movement, StageSteps steps, BufferStrides strides)
    : step_(steps.last),
      before_(movement.before(steps.first)),
      held_(movement.before(steps.last)),
      after_(movement.steps[steps.last].after),
      strides_(std::move(strides)) {
  const StepOperation& operation = movement.steps[steps.last].operation;
  if (const Groups* groups = groups_of(operation)) list_groups(*groups);
  if (const auto* permute = std::get_if<PermuteStep>(&operation)) list_transfers(permuted_pieces(*permute, after_));
  if (const auto* exchange = std::get_if<ExchangeStep>(&operation)) {
    list_transfers(exchange_pieces(*exchange, held_, after_));
  }
}

Stage::Stage(const Placement& tiles, BufferStrides strides)
    : before_(tiles), held_(tiles), after_(tiles), strides_(std::move(strides)) {}

void Stage::list_groups(const Groups& groups) {
  groups_ = groups;
  group_of_.resize(static_cast<std::size_t>(after_.device_count()));
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    for (const Device device : groups_[group]) group_of_[static_cast<std::size_t>(device)] = group;
  }
}

void Stage::list_transfers(std::vector<Transfer> transfers) {
  transfers_ = std::move(transfers);
  const std::int64_t devices = after_.device_count();
  first_received_ = first_by_device(transfers_.size(), devices, [&](std::size_t i) { return transfers_[i].to; });
  first_sent_ = first_by_device(transfers_.size(), devices, [&](std::size_t i) { return transfers_[i].from; });
  sent_.resize(transfers_.size());
  std::vector<std::size_t> next(first_sent_.begin(), first_sent_.end() - 1);
  for (std::size_t i = 0; i < transfers_.size(); ++i) sent_[next[static_cast<std::size_t>(transfers_[i].from)]++] = i;
}

std::vector<Transfer> Stage::received_by(Device device) const {
  const auto d = static_cast<std::size_t>(device);
  if (!first_received_.empty()) {
    const auto begin = transfers_.begin();
    return {begin + static_cast<std::ptrdiff_t>(first_received_[d]),
            begin + static_cast<std::ptrdiff_t>(first_received_[d + 1])};
  }
  const Box wanted = after_.box(device);
  if (groups_.empty()) return {{device, device, wanted}};
  std::vector<Transfer> pieces;
  for (const Device from : groups_[group_of_[d]]) {
    std::optional<Box> shared = intersect(held_.box(from), wanted);
    if (shared) pieces.push_back({from, device, *std::move(shared)});
  }
  return pieces;
}

std::vector<Transfer> Stage::sent_by(Device device) const {
  const auto d = static_cast<std::size_t>(device);
  std::vector<Transfer> pieces;
  if (!first_sent_.empty()) {
    for (std::size_t i = first_sent_[d]; i < first_sent_[d + 1]; ++i) pieces.push_back(transfers_[sent_[i]]);
    return pieces;
  }
  const Box held = held_.box(device);
  if (groups_.empty()) return {{device, device, after_.box(device)}};
  for (const Device to : groups_[group_of_[d]]) {
    std::optional<Box> shared = intersect(held, after_.box(to));
    if (shared) pieces.push_back({device, to, *std::move(shared)});
  }
  return pieces;
}

std::vector<Stage> make_schedule(const Movement& movement, std::int64_t element_size, const BufferStrides& strides) {
  const Movement listed = with_lists(movement);
  const auto packed_as_sources = [&](const Placement& placement) {
    std::vector<Strides> packed;
    for (std::size_t i = 0; i < strides.sources.size(); ++i) {
      const auto device = static_cast<Device>(i);
      const DimensionOrder order = order_of({listed.source.box(device), strides.sources[i]});
      packed.push_back(packed_strides(placement.box(device), element_size, order));
    }
    return packed;
  };
  std::vector<Stage> stages;
  std::vector<Strides> before = strides.sources;
  for (const StageSteps& steps : stage_steps(listed.steps)) {
    const bool is_last = steps.last + 1 == listed.steps.size();
    std::vector<Strides> after = is_last ? strides.targets : packed_as_sources(listed.steps[steps.last].after);
    stages.emplace_back(listed, steps, BufferStrides{std::move(before), after});
    before = std::move(after);
  }
  return stages;
}

}  // namespace retile
