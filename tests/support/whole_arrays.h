// Made-up arrays as a whole, and what devices hold of them: for tests of what runs move.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "retile/checking/made_array.h"

namespace retile {

// The whole of a made-up array.
Tile make_array(const Shape& shape, std::int64_t element_size, std::uint64_t seed);

// What each device holds of the array.
Tiles slice_array(const Tile& array, const Placement& placement, std::int64_t element_size);

// The first element in which a tile is not what its device holds of the array: "device 3, element [0, 8]: …".
std::optional<std::string> find_difference(const Tile& array, const Tiles& tiles, const Placement& placement,
                                           std::int64_t element_size);

}  // namespace retile
