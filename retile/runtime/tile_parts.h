// The parts of an array that a device holds, box by box.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "retile/types/placement.h"

namespace retile::runtime {

// The first element that the device holds, -1s where it holds none: devices with the same hold the same.
Shape corner_of(const Placement& placement, Device device);

// Where an element lies in the memory of a device that holds the part, in elements; -1 where it is not in the part.
std::int64_t place_in(const Part& part, const Shape& element);

// Calls visit(box, bytes) for each box that the device holds, with its elements row-major.
void read_parts(const Placement& placement, Device device, const std::byte* tile, std::int64_t element_size,
                const std::function<void(const Box& box, const std::byte* bytes)>& visit);

// Calls visit(box, bytes) for every part, which writes its bytes.
void write_parts(const Placement& placement, Device device, std::byte* tile, std::int64_t element_size,
                 const std::function<void(const Box& box, std::byte* bytes)>& visit);

}  // namespace retile::runtime
