#include "retile/schedule/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "retile/base/error.h"
#include "retile/grids/box_index.h"

namespace retile {
namespace {

// An equal placement whose boxes are looked up in a table, not worked out from a type.
Placement table_of(const Placement& placement) {
  if (placement.type() == nullptr || placement.rank() == 0 || !placement.is_even()) return placement;
  const auto rank = static_cast<std::size_t>(placement.rank());
  std::vector<std::int64_t> corners(static_cast<std::size_t>(placement.device_count()) * rank);
  for (Device device = 0; device < placement.device_count(); ++device) {
    placement.offset(device, {corners.data() + static_cast<std::size_t>(device) * rank, rank});
  }
  return {placement.global_shape(), placement.local_shape(), std::move(corners)};
}

// Without those that parts are laid out by.
BufferStrides of_single_boxes(BufferStrides strides, const Placement& before, const Placement& after) {
  if (!before.has_single_boxes()) strides.sources.clear();
  if (!after.has_single_boxes()) strides.targets.clear();
  return strides;
}

// Makes the piece's box what the sender holds of it. False where that is nothing.
bool share(const Placement& held, const Box& wanted, Piece& piece) {
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
std::vector<Piece> make_disjoint(const std::vector<Piece>& pieces) {
  std::vector<Piece> disjoint;
  for (const Piece& piece : pieces) {
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
std::vector<Piece> kept_pieces(const Placement& held, const Placement& after, Device device) {
  std::vector<Piece> pieces;
  if (held.has_single_boxes() && after.has_single_boxes()) {
    if (auto kept = intersect(held.box(device), after.box(device)))
      pieces.push_back({device, device, *std::move(kept)});
    return pieces;
  }
  const BoxIndex index(held.parts(device));
  for (const Part& part : after.parts(device)) {
    index.visit_shared(part.box, [&](std::size_t /*held*/, Box shared) {
      pieces.push_back({device, device, std::move(shared)});
    });
  }
  return pieces;
}

// What the devices keep and what they are sent, by the devices that get it. An exchange may send an element twice; it
// is copied once.
std::vector<Piece> exchange_pieces(const ExchangeStep& step, const Placement& held, const Placement& after) {
  const std::int64_t devices = held.device_count();
  std::vector<std::vector<Piece>> pieces(static_cast<std::size_t>(devices));
  for (Device device = 0; device < devices; ++device) {
    at(pieces, device) = kept_pieces(held, after, device);
  }
  for (const Piece& piece : *step.pieces) at(pieces, piece.to).push_back(piece);
  std::vector<Piece> all;
  for (std::vector<Piece>& list : pieces) {
    std::int64_t elements = 0;
    for (const Piece& piece : list) elements += volume(piece.box);
    if (!list.empty() && elements != after.size(list.front().to)) list = make_disjoint(list);
    std::move(list.begin(), list.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

Stage::Pieces Stage::list_pieces(std::vector<Piece> pieces, std::int64_t devices) {
  ListedPieces listed{std::move(pieces), {}, {}, {}};
  listed.first_received.resize(static_cast<std::size_t>(devices) + 1);
  listed.first_sent.resize(listed.first_received.size());
  for (const Piece& piece : listed.pieces) {
    ++listed.first_received[static_cast<std::size_t>(piece.to) + 1];
    if (piece.from != piece.to) ++listed.first_sent[static_cast<std::size_t>(piece.from) + 1];
  }
  std::partial_sum(listed.first_received.begin(), listed.first_received.end(), listed.first_received.begin());
  std::partial_sum(listed.first_sent.begin(), listed.first_sent.end(), listed.first_sent.begin());
  listed.sent.resize(listed.first_sent.back());
  std::vector<std::size_t> next(listed.first_sent);
  for (std::size_t i = 0; i < listed.pieces.size(); ++i) {
    const Piece& piece = listed.pieces[i];
    if (piece.from != piece.to) listed.sent[at(next, piece.from)++] = i;
  }
  return listed;
}

Stage::Pieces Stage::pieces_of(const StepOperation& operation, const Placement& held, const Placement& after) {
  if (const Groups* groups = groups_of(operation)) {
    GroupTiles tiles{*groups, std::vector<std::size_t>(static_cast<std::size_t>(after.device_count()))};
    for (std::size_t group = 0; group < tiles.groups.size(); ++group) {
      for (const Device device : tiles.groups[group]) at(tiles.group_of, device) = group;
    }
    return tiles;
  }
  if (const auto* permute = std::get_if<PermuteStep>(&operation)) {
    PermutedTiles tiles{std::vector<Device>(permute->pairs->size()), std::vector<Device>(permute->pairs->size())};
    for (const DevicePair& pair : *permute->pairs) {
      at(tiles.senders, pair.target) = pair.source;
      at(tiles.receivers, pair.source) = pair.target;
    }
    return tiles;
  }
  if (const auto* exchange = std::get_if<ExchangeStep>(&operation)) {
    if (exchange->pieces) return list_pieces(exchange_pieces(*exchange, held, after), after.device_count());
    return GridExchange(held.grid_extent(), tile_table(held), tile_table(after));
  }
  return OwnTiles{};
}

Stage::Stage(const Movement& movement, StageSteps steps, BufferStrides strides, std::int64_t element_size)
    : step_(steps.last),
      before_(laid_out(table_of(movement.before(steps.first)), strides.sources, element_size)),
      held_(table_of(movement.before(steps.last))),
      after_(laid_out(table_of(movement.steps[steps.last].after), strides.targets, element_size)),
      strides_(of_single_boxes(std::move(strides), movement.before(steps.first), movement.steps[steps.last].after)),
      element_size_(element_size) {
  const StepOperation& operation = movement.steps[steps.last].operation;
  if (const auto* reduce = std::get_if<ReduceStep>(&operation)) {
    reduction_ = *reduce;
  } else {
    pieces_ = pieces_of(operation, held_, after_);
  }
}

Stage::Stage(const Placement& tiles, BufferStrides strides, std::int64_t element_size)
    : before_(laid_out(tiles, strides.sources, element_size)),
      held_(tiles),
      after_(laid_out(tiles, strides.targets, element_size)),
      strides_(of_single_boxes(std::move(strides), tiles, tiles)),
      element_size_(element_size) {}

TileLayout Stage::layout_around(const Placement& placement, const std::vector<Strides>& strides, Device device,
                                const Box& box) const {
  if (placement.has_single_boxes()) {
    return {placement.box(device), strides.empty() ? Strides() : at(strides, device)};
  }
  const std::optional<Part> part = placement.part_around(device, box);
  ensure(part.has_value(), "a piece lies in one of a device's boxes");
  return layout_of(*part, element_size_);
}

const Groups* Stage::groups() const {
  const auto* tiles = std::get_if<GroupTiles>(&pieces_);
  return tiles == nullptr ? nullptr : &tiles->groups;
}

void Stage::visit_own(Device device, const Visit& visit) const {
  for (const Piece& piece : kept_pieces(held_, after_, device)) visit(piece);
}

// What one device holds of the tile that another one gets.
void Stage::visit_shared(Device from, Device to, const Visit& visit) const {
  const Box wanted = after_.box(to);
  Piece piece{from, to, wanted};
  if (volume(wanted) > 0 && share(held_, wanted, piece)) visit(piece);
}

// The whole of the tile that a device gets from another.
void Stage::visit_permuted(Device from, Device to, const Visit& visit) const {
  const Piece piece{from, to, after_.box(to)};
  if (volume(piece.box) > 0) visit(piece);
}

void Stage::visit_received(Device device, const Visit& visit) const {
  const auto d = static_cast<std::size_t>(device);
  if (std::holds_alternative<OwnTiles>(pieces_)) {
    visit_own(device, visit);
  } else if (const auto* groups = std::get_if<GroupTiles>(&pieces_)) {
    for (const Device from : groups->groups[groups->group_of[d]]) visit_shared(from, device, visit);
  } else if (const auto* permuted = std::get_if<PermutedTiles>(&pieces_)) {
    visit_permuted(permuted->senders[d], device, visit);
  } else if (const auto* listed = std::get_if<ListedPieces>(&pieces_)) {
    for (std::size_t i = listed->first_received[d]; i < listed->first_received[d + 1]; ++i) visit(listed->pieces[i]);
  } else {
    visit_own(device, visit);
    std::get<GridExchange>(pieces_).visit_received(device, clipped(visit));
  }
}

void Stage::visit_sent(Device device, const Visit& visit) const {
  const auto d = static_cast<std::size_t>(device);
  if (const auto* groups = std::get_if<GroupTiles>(&pieces_)) {
    for (const Device to : groups->groups[groups->group_of[d]]) {
      if (to != device) visit_shared(device, to, visit);
    }
  } else if (const auto* permuted = std::get_if<PermutedTiles>(&pieces_)) {
    if (permuted->receivers[d] != device) visit_permuted(device, permuted->receivers[d], visit);
  } else if (const auto* listed = std::get_if<ListedPieces>(&pieces_)) {
    for (std::size_t i = listed->first_sent[d]; i < listed->first_sent[d + 1]; ++i) {
      visit(listed->pieces[listed->sent[i]]);
    }
  } else if (const auto* exchange = std::get_if<GridExchange>(&pieces_)) {
    exchange->visit_sent(device, clipped(visit));
  }
}

// Pieces of a grid that reaches beyond the array, as far as the array goes.
Stage::Visit Stage::clipped(const Visit& visit) const {
  if (held_.is_even() && after_.is_even()) return visit;
  return [this, &visit](const Piece& whole) {
    if (auto box = intersect(whole.box, after_.box(whole.to))) visit({whole.from, whole.to, *std::move(box)});
  };
}

std::optional<std::string> find_element_fault(const Movement& movement, std::int64_t element_size) {
  for (const Step& step : movement.steps) {
    const auto* reduce = std::get_if<ReduceStep>(&step.operation);
    if (reduce == nullptr || bytes_of(reduce->element) == element_size) continue;
    return fmt::format("the plan combines elements of {}, and the run moves elements of {} bytes",
                       name_of(reduce->element), element_size);
  }
  return std::nullopt;
}

void require_element_size(const Movement& movement, std::int64_t element_size) {
  if (const auto fault = find_element_fault(movement, element_size)) throw RuntimeError(*fault);
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
  // Reductions combine rows of tiles that are row-major, and leave fewer dimensions.
  const bool has_reductions = std::any_of(listed.steps.begin(), listed.steps.end(), [](const Step& step) {
    return std::holds_alternative<ReduceStep>(step.operation);
  });
  const auto packed_as_sources = [&](const Placement& placement) {
    std::vector<Strides> packed;
    const bool are_single = listed.source.has_single_boxes() && placement.has_single_boxes();
    for (std::size_t i = 0; are_single && !has_reductions && i < strides.sources.size(); ++i) {
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
