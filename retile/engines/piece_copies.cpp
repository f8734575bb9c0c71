#include "retile/engines/piece_copies.h"

#include <algorithm>
#include <functional>

#include "retile/base/error.h"

namespace retile {
namespace {

// Neighbouring pieces have one of few shapes; tiles that all lie differently are not searched for what is not there.
constexpr std::size_t most_searched = 16;

const Strides& strides_of_device(const std::vector<Strides>& strides, const Strides& packed, Device device) {
  return strides.empty() ? packed : strides[static_cast<std::size_t>(device)];
}

bool has_extent(const Box& box, const Shape& extent) {
  for (std::size_t i = 0; i < extent.size(); ++i) {
    if (box.hi[i] - box.lo[i] != extent[i]) return false;
  }
  return true;
}

Shape extent_of(const Box& box) {
  Shape extent(box.lo.size());
  std::transform(box.hi.begin(), box.hi.end(), box.lo.begin(), extent.begin(), std::minus<>());
  return extent;
}

// Where the box begins in the device's tile. `corner` is room for that of the tile.
std::int64_t offset_in(const Placement& tiles, Device device, const Box& box, const Strides& strides, Shape& corner) {
  tiles.offset(device, corner);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < corner.size(); ++i) {
    const bool lies_inside = corner[i] <= box.lo[i] && box.hi[i] <= corner[i] + tiles.local_shape()[i];
    ensure(lies_inside, "a copy's box lies in both tiles");
    offset += (box.lo[i] - corner[i]) * strides[i];
  }
  return offset;
}

// The same for tiles of any kind.
std::int64_t offset_in(const TileLayout& tile, const Box& box, const Strides& strides) {
  ensure(contains(tile.box, box), "a copy's box lies in both tiles");
  std::int64_t offset = tile.offset;
  for (std::size_t i = 0; i < strides.size(); ++i) offset += (box.lo[i] - tile.box.lo[i]) * strides[i];
  return offset;
}

Strides packed_alike(const Placement& tiles, std::int64_t element_size) {
  return tiles.is_even() ? strides_of(tiles.box(0), element_size) : Strides();
}

}  // namespace

PieceCopies::PieceCopies(const Stage& stage, std::int64_t element_size)
    : stage_(&stage),
      element_size_(element_size),
      packed_from_(packed_alike(stage.before(), element_size)),
      packed_to_(packed_alike(stage.after(), element_size)),
      corner_(static_cast<std::size_t>(stage.after().rank())) {}

PlacedCopy PieceCopies::place(Device from, Device to, const Box& box) {
  if (!stage_->before().is_even() || !stage_->after().is_even()) return place_unevenly(from, to, box);
  const Strides& from_strides = strides_of_device(stage_->strides().sources, packed_from_, from);
  const Strides& to_strides = strides_of_device(stage_->strides().targets, packed_to_, to);
  return {find_shape(box, from_strides, to_strides), static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to),
          offset_in(stage_->before(), from, box, from_strides, corner_),
          offset_in(stage_->after(), to, box, to_strides, corner_)};
}

PlacedCopy PieceCopies::place_unevenly(Device from, Device to, const Box& box) {
  const TileLayout source = stage_->tile_before(from, box);
  const TileLayout target = stage_->tile_after(to, box);
  const Strides from_strides = strides_of(source, element_size_);
  const Strides to_strides = strides_of(target, element_size_);
  return {find_shape(box, from_strides, to_strides), static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to),
          offset_in(source, box, from_strides), offset_in(target, box, to_strides)};
}

std::uint32_t PieceCopies::find_shape(const Box& box, const Strides& from, const Strides& to) {
  const std::size_t end = shapes_.size() - std::min(shapes_.size(), most_searched);
  for (std::size_t i = shapes_.size(); i-- > end;) {
    const PieceShape& shape = shapes_[i];
    if (has_extent(box, shape.extent) && shape.from == from && shape.to == to) return static_cast<std::uint32_t>(i);
  }
  shapes_.push_back({extent_of(box), from, to, BoxCopy({box, from}, {box, to}, box, element_size_)});
  return static_cast<std::uint32_t>(shapes_.size() - 1);
}

}  // namespace retile
