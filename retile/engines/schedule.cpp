#include "retile/engines/schedule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace retile {
namespace {

// The same boxes, found without working them out from a type.
Placement table_of(const Placement& placement) {
  if (placement.type() == nullptr || placement.rank() == 0) return placement;
  const auto rank = static_cast<std::size_t>(placement.rank());
  std::vector<std::int64_t> corners(static_cast<std::size_t>(placement.device_count()) * rank);
  for (Device device = 0; device < placement.device_count(); ++device) {
    placement.offset(device, {corners.data() + static_cast<std::size_t>(device) * rank, rank});
  }
  return {placement.global_shape(), placement.local_shape(), std::move(corners)};
}

// Makes the piece's box what the sender holds of it. False where that is nothing.
bool share(const Placement& held, const Box& wanted, Transfer& piece) {
  held.offset(piece.from, piece.box.lo);
  for (std::size_t i = 0; i < wanted.lo.size(); ++i) {
    piece.box.hi[i] = std::min(piece.box.lo[i] + held.local_shape()[i], wanted.hi[i]);
    piece.box.lo[i] = std::max(piece.box.lo[i], wanted.lo[i]);
    if (piece.box.lo[i] >= piece.box.hi[i]) return false;
  }
  return true;
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

}  // namespace

Stage::Stage(const Movement& movement, StageSteps steps, BufferStrides strides)
    : step_(steps.last),
      before_(table_of(movement.before(steps.first))),
      held_(table_of(movement.before(steps.last))),
      after_(table_of(movement.steps[steps.last].after)),
      strides_(std::move(strides)) {
  const StepOperation& operation = movement.steps[steps.last].operation;
  if (const Groups* groups = groups_of(operation)) list_groups(*groups);
  if (const auto* permute = std::get_if<PermuteStep>(&operation)) {
    senders_.resize(permute->pairs->size());
    for (const DevicePair& pair : *permute->pairs) senders_[static_cast<std::size_t>(pair.target)] = pair.source;
  }
  if (const auto* exchange = std::get_if<ExchangeStep>(&operation)) {
    if (exchange->transfers) {
      list_transfers(exchange_pieces(*exchange, held_, after_));
    } else {
      balanced_.emplace(held_.global_shape(), tile_table(held_), tile_table(after_));
    }
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
  first_received_.resize(static_cast<std::size_t>(after_.device_count()) + 1);
  for (const Transfer& transfer : transfers_) ++first_received_[static_cast<std::size_t>(transfer.to) + 1];
  std::partial_sum(first_received_.begin(), first_received_.end(), first_received_.begin());
}

void PieceCursor::next(const std::function<void(const Transfer&)>& visit) {
  const Device device = device_++;
  const auto d = static_cast<std::size_t>(device);
  if (!stage_->first_received_.empty()) {
    for (std::size_t i = stage_->first_received_[d]; i < stage_->first_received_[d + 1]; ++i) {
      visit(stage_->transfers_[i]);
    }
    return;
  }
  const Box wanted = stage_->after_.box(device);
  Transfer piece{device, device, wanted};
  if (balanced_) {
    if (share(stage_->held_, wanted, piece)) visit(piece);
    balanced_->next(visit);
  } else if (!stage_->groups_.empty()) {
    for (const Device from : stage_->groups_[stage_->group_of_[d]]) {
      piece.from = from;
      if (share(stage_->held_, wanted, piece)) visit(piece);
    }
  } else {
    if (!stage_->senders_.empty()) piece.from = stage_->senders_[d];
    visit(piece);
  }
}

Movement with_short_lists(Movement movement) {
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    const bool is_long = op_of(movement.steps[i]) == StepOp::exchange && movement.source.rank() > 0;
    if (!is_long) list_devices(movement.steps[i], movement.before(i));
  }
  return movement;
}

std::vector<Stage> make_schedule(const Movement& movement, std::int64_t element_size, const BufferStrides& strides) {
  const Movement listed = with_short_lists(movement);
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
