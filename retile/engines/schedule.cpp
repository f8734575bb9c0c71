#include "retile/engines/schedule.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/combine.h"
#include "retile/grids/box_index.h"

namespace retile {
namespace {

// The same boxes, found without working them out from a type.
Placement table_of(const Placement& placement) {
  if (placement.type() == nullptr || placement.rank() == 0 || !placement.is_even()) return placement;
  const auto rank = static_cast<std::size_t>(placement.rank());
  std::vector<std::int64_t> corners(static_cast<std::size_t>(placement.device_count()) * rank);
  for (Device device = 0; device < placement.device_count(); ++device) {
    placement.offset(device, {corners.data() + static_cast<std::size_t>(device) * rank, rank});
  }
  return {placement.global_shape(), placement.local_shape(), std::move(corners)};
}

// Makes the piece's box what the sender holds of it. False where that is nothing.
bool share(const Placement& held, const Box& wanted, Transfer& piece) {
  if (!held.is_even()) {
    const std::optional<Box> shared = intersect(held.box(piece.from), wanted);
    if (shared) piece.box = *shared;
    return shared.has_value();
  }
  held.offset(piece.from, piece.box.lo);
  for (std::size_t i = 0; i < wanted.lo.size(); ++i) {
    piece.box.hi[i] = std::min(piece.box.lo[i] + held.local_shape()[i], wanted.hi[i]);
    piece.box.lo[i] = std::max(piece.box.lo[i], wanted.lo[i]);
    if (piece.box.lo[i] >= piece.box.hi[i]) return false;
  }
  return true;
}

// Boxes without what the boxes before them hold.
std::vector<Transfer> make_disjoint(const std::vector<Transfer>& pieces) {
  std::vector<Transfer> disjoint;
  for (const Transfer& piece : pieces) {
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

// What a device has already of its boxes after.
std::vector<Transfer> kept_pieces(const Placement& held, const Placement& after, Device device) {
  std::vector<Transfer> pieces;
  if (held.has_single_boxes() && after.has_single_boxes()) {
    if (auto kept = intersect(held.box(device), after.box(device)))
      pieces.push_back({device, device, *std::move(kept)});
    return pieces;
  }
  std::vector<Box> boxes;
  for (Part& part : held.parts(device)) boxes.push_back(std::move(part.box));
  const BoxIndex index(std::move(boxes));
  for (const Part& part : after.parts(device)) {
    index.visit_shared(part.box, [&](std::size_t /*held*/, Box shared) {
      pieces.push_back({device, device, std::move(shared)});
    });
  }
  return pieces;
}

// What the devices keep and what they are sent, by the devices that get it. An exchange may send an element twice; it
// is copied once.
std::vector<Transfer> exchange_pieces(const ExchangeStep& step, const Placement& held, const Placement& after) {
  const std::int64_t devices = held.device_count();
  std::vector<std::vector<Transfer>> pieces(static_cast<std::size_t>(devices));
  for (Device device = 0; device < devices; ++device) {
    pieces[static_cast<std::size_t>(device)] = kept_pieces(held, after, device);
  }
  for (const Transfer& transfer : *step.transfers) pieces[static_cast<std::size_t>(transfer.to)].push_back(transfer);
  std::vector<Transfer> all;
  for (std::vector<Transfer>& list : pieces) {
    std::int64_t elements = 0;
    for (const Transfer& piece : list) elements += volume(piece.box);
    if (!list.empty() && elements != after.size(list.front().to)) list = make_disjoint(list);
    std::move(list.begin(), list.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

Stage::Stage(const Movement& movement, StageSteps steps, BufferStrides strides, std::int64_t element_size)
    : step_(steps.last),
      before_(table_of(movement.before(steps.first))),
      held_(table_of(movement.before(steps.last))),
      after_(table_of(movement.steps[steps.last].after)),
      strides_(std::move(strides)),
      element_size_(element_size) {
  const StepOperation& operation = movement.steps[steps.last].operation;
  if (const auto* reduce = std::get_if<ReduceStep>(&operation)) reduction_ = *reduce;
  if (const Groups* groups = groups_of(operation)) list_groups(*groups);
  if (const auto* permute = std::get_if<PermuteStep>(&operation)) {
    senders_.resize(permute->pairs->size());
    for (const DevicePair& pair : *permute->pairs) senders_[static_cast<std::size_t>(pair.target)] = pair.source;
  }
  if (const auto* exchange = std::get_if<ExchangeStep>(&operation)) {
    if (exchange->transfers) {
      list_transfers(exchange_pieces(*exchange, held_, after_));
    } else {
      balanced_.emplace(held_.grid_extent(), tile_table(held_), tile_table(after_));
    }
  }
}

Stage::Stage(const Placement& tiles, BufferStrides strides, std::int64_t element_size)
    : before_(tiles), held_(tiles), after_(tiles), strides_(std::move(strides)), element_size_(element_size) {}

void Stage::reduce(Device device, std::int64_t first, std::int64_t count, const std::byte* from, std::byte* to) const {
  const std::int64_t elements = after_.size(device);
  const std::int64_t rows = elements == 0 ? 0 : before_.size(device) / elements;
  combine_rows(reduction_->reduction, reduction_->element, rows, elements, first, count, from, to);
}

TileLayout Stage::layout_around(const Placement& placement, const std::vector<Strides>& strides, Device device,
                                const Box& box) const {
  if (placement.has_single_boxes()) {
    return {placement.box(device), strides.empty() ? Strides() : strides[static_cast<std::size_t>(device)]};
  }
  const std::optional<Part> part = placement.part_around(device, box);
  ensure(part.has_value(), "a piece lies in one of a device's boxes");
  return layout_of(*part, element_size_);
}

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
  if (!stage_->held_.has_single_boxes() || !stage_->after_.has_single_boxes()) {  // slices of several boxes
    for (const Transfer& piece : kept_pieces(stage_->held_, stage_->after_, device)) visit(piece);
    return;
  }
  const Box wanted = stage_->after_.box(device);
  Transfer piece{device, device, wanted};
  if (balanced_) {
    if (share(stage_->held_, wanted, piece)) visit(piece);
    if (stage_->held_.is_even()) {
      balanced_->next(visit);
    } else {  // of the grid, as far as the array goes
      balanced_->next([&](const Transfer& whole) {
        if (auto clipped = intersect(whole.box, wanted)) visit({whole.from, whole.to, *std::move(clipped)});
      });
    }
  } else if (volume(wanted) == 0) {
    return;
  }
  if (balanced_) return;
  if (!stage_->groups_.empty()) {
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
    const bool is_long = op_of(movement.steps[i]) == StepOp::exchange && movement.source.rank() > 0 &&
                         !goes_by_boxes(movement.before(i), movement.steps[i].after);
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
      const DimensionOrder order = order_of({listed.source.box(device), strides.sources[i]});  // of single boxes
      packed.push_back(packed_strides(placement.box(device), element_size, order));
    }
    return packed;
  };
  std::vector<Stage> stages;
  std::vector<Strides> before = strides.sources;
  for (const StageSteps& steps : stage_steps(listed.steps)) {
    const bool is_last = steps.last + 1 == listed.steps.size();
    std::vector<Strides> after = is_last ? strides.targets : packed_as_sources(listed.steps[steps.last].after);
    stages.emplace_back(listed, steps, BufferStrides{std::move(before), after}, element_size);
    before = std::move(after);
  }
  return stages;
}

}  // namespace retile
