// Single elements of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/placement.h"

namespace retile::runtime {

// The shortest text that no other number of the type has.
std::string format_element(ElementType element, const std::byte* bytes);

// The element's bits as a number.
std::uint64_t bits_of_element(ElementType element, const std::byte* bytes);

// The place in the global array of the element with this row-major number, counted in the array or in the device's
// tile.
Shape element_index(const Shape& shape, std::int64_t number);
Shape element_index(const Placement& placement, Device device, std::int64_t number);

}  // namespace retile::runtime
