// The arguments of a run, tile by tile: made up from a seed, or read from files.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "retile/language/program.h"
#include "retile/runtime/shared_array.h"

namespace retile::runtime {

// Writes the elements of a box of a global array, row-major.
using ReadBox = std::function<void(const Box& box, std::byte* out)>;

// Elements that depend on the seed and their row-major number alone, whatever the layout: floats are multiples of 1/128
// from -1 to below 1, so that sums of not too many products are exact and do not depend on their order; integers go
// from -100 to 99.
ReadBox made_up_array(ElementType element, const Shape& shape, std::uint64_t seed);

// The tiles of these devices; equal ones are read once. Throws RuntimeError where there is no memory.
TileBuffers read_tiles(const language::ArrayType& type, const std::vector<Device>& devices, const ReadBox& read);

}  // namespace retile::runtime
