// Single elements of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"

namespace retile::runtime {

// As short as it can be without another number of the type having the same text.
std::string format_element(ElementType element, const std::byte* bytes);

// The element's bits as a number.
std::uint64_t bits_of_element(ElementType element, const std::byte* bytes);

// Where the element with this row-major number lies in an array of this shape.
Shape element_index(const Shape& shape, std::int64_t number);

}  // namespace retile::runtime
