// How tiles lie in memory: bytes from an element to the next one, in every dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/placement.h"

namespace retile {

// Bytes by dimension, of any sign. Where a list is empty, a tile is packed: row-major, without gaps.
using Strides = std::vector<std::int64_t>;

// A tile in memory: a pointer to it leads to the first element of its box, or so many bytes before it.
struct TileLayout {
  Box box;
  Strides strides;  // empty: packed
  std::int64_t offset = 0;

  // NOLINTNEXTLINE(*-explicit-*): a box alone is a packed tile
  TileLayout(Box tile_box, Strides tile_strides = {}, std::int64_t tile_offset = 0)
      : box(std::move(tile_box)), strides(std::move(tile_strides)), offset(tile_offset) {}
};

// A part of what a device holds, in memory without gaps.
TileLayout layout_of(const Part& part, std::int64_t element_size);

// Dimensions, outermost first.
using DimensionOrder = std::vector<std::size_t>;

// The dimensions by falling strides; in their own order where the tile is packed.
DimensionOrder order_of(const TileLayout& tile);

// Strides of a box without gaps whose dimensions are in this order. Both throw RuntimeError where bytes do not fit in
// 63 bits.
Strides packed_strides(const Box& box, std::int64_t element_size, const DimensionOrder& order);
Strides strides_of(const TileLayout& tile, std::int64_t element_size);

// Where a tile's memory begins and ends, in bytes from its first element. Nothing where that is not within
// 62 bits.
struct Reach {
  std::int64_t begin = 0;  // 0 unless a stride is negative
  std::int64_t end = 0;
};
std::optional<Reach> reach_of(const TileLayout& tile, std::int64_t element_size);

// How the buffers of a run lie in memory, device by device. A list is empty where all are packed, as are those of a
// run's own tiles and of donated ones. Strides are by dimension of a device's box; where devices hold several boxes, by
// dimension of the arrays in which they have them.
struct BufferStrides {
  std::vector<Strides> sources;
  std::vector<Strides> targets;

  bool are_packed() const { return sources.empty() && targets.empty(); }
};

// The strides of a device's tile or array if it is packed.
Strides packed_strides(const Placement& placement, Device device, std::int64_t element_size);

// A part of a device that holds several, in an array with these strides instead of a packed one.
Part laid_out(Part part, const MemoryDimensions& memory, const Strides& strides, std::int64_t element_size);
// All devices' parts. Nothing changes where no strides are given, or each device holds one box.
Placement laid_out(const Placement& placement, const std::vector<Strides>& strides, std::int64_t element_size);

// Strides of an array's dimensions as those of the factors that they are seen in: the tiles lie as they do.
std::vector<Strides> strides_in_view(std::vector<Strides> strides, const std::vector<Shape>& view,
                                     const Placement& placement, std::span<const Device> devices);

// The strides for the tiles of these devices, with empty lists for what is packed anyway. Throws RuntimeError
// where there are not as many as devices or dimensions, where a tile reaches beyond 62 bits, and where elements of a
// target might share memory: in the order of strides, each dimension must step over all that those below it reach.
BufferStrides require_strides(const BufferStrides& strides, const Placement& source, const Placement& target,
                              std::span<const Device> devices, std::int64_t element_size);

}  // namespace retile
