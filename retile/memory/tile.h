// Tiles as raw bytes, for engines to move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/memory/buffer.h"
#include "retile/memory/tile_layout.h"
#include "retile/types/box.h"

namespace retile {

// The bytes of a box of a global array, row-major.
struct Tile {
  Box box;
  Buffer bytes;
};

// One tile per device.
using Tiles = std::vector<Tile>;

// Bytes of this many elements. Throws RuntimeError where that does not fit in 63 bits.
std::int64_t checked_bytes(std::int64_t elements, std::int64_t element_size);

// A tile with room for its box, all bytes zero. Throws RuntimeError where there is no memory for it.
Tile allocate_tile(const Box& box, std::int64_t element_size);

// Copies the elements of `box`, which lies in both tiles' boxes.
void copy_box(const Tile& from, Tile& to, const Box& box, std::int64_t element_size);

// Copies a box between tiles given by pointers to their first elements.
void copy_box(const std::byte* from, const TileLayout& from_tile, std::byte* to, const TileLayout& to_tile,
              const Box& box, std::int64_t element_size);

}  // namespace retile
