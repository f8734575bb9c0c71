// Made-up arrays, for runs to move and to check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/memory/tile.h"
#include "retile/types/box.h"
#include "retile/types/placement.h"

namespace retile {

// A made-up array: each element's bytes come from the seed and its row-major number. Boxes of it are made without it.
struct MadeArray {
  Shape shape;
  std::int64_t element_size = 1;  // bytes
  std::uint64_t seed = 0;
};

Tile make_tile(const MadeArray& array, const Box& box);
// In memory that is just large enough.
Tile make_tile(const MadeArray& array, const Box& box, Buffer room);
void fill_tile(const MadeArray& array, Tile& tile);

// The parts that a device holds, into memory that is just large enough.
void make_parts(const MadeArray& array, const std::vector<Part>& parts, std::byte* memory);

// The first element in which the device's tile is not this box of the array: "device 3, element [0, 8]: …".
std::optional<std::string> find_difference(const MadeArray& array, const Tile& tile, Device device,
                                           const Box& expected);

// Finds a wrong element in the memory of a device that holds these parts.
std::optional<std::string> find_difference(const MadeArray& array, const std::byte* memory, Device device,
                                           const std::vector<Part>& parts);

}  // namespace retile
