// Conversion of elements between floating-point types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "retile/types/element_type.h"

namespace retile {

// Whether elements of one type can be converted to another: both are f16, bf16, f32 or f64.
bool can_convert(ElementType from, ElementType to);

// Converts so many elements, rounding to the nearest and ties to even; NaN stays NaN. f64 becomes f16 or bf16 by way of
// f32, as in PyTorch. No alignment is needed, and the two do not overlap. can_convert() holds.
void convert_elements(ElementType from, ElementType to, std::int64_t count, const std::byte* in, std::byte* out);

}  // namespace retile
