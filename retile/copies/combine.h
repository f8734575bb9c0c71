// Adding up the parts of a value, or taking the largest or smallest of them: always in the order of the parts, so that
// every engine gets the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "retile/types/element_type.h"
#include "retile/types/layout.h"

namespace retile {

// Combines rows of elements that lie one after the other into one: out[i] is rows[0][i], rows[1][i], … in this order.
// Integers wrap; f16 and bf16 are added as f32 and rounded once; NaN wins over any number. Complex numbers have no
// order: they are only added. can_be_combined() holds. No alignment is needed, and the row does not overlap them.
void combine_rows(Reduction reduction, ElementType element, std::int64_t rows, std::int64_t row_elements,
                  const std::byte* in, std::byte* out);

// Combines `count` elements of each row, from `first` on.
void combine_rows(Reduction reduction, ElementType element, std::int64_t rows, std::int64_t row_elements,
                  std::int64_t first, std::int64_t count, const std::byte* in, std::byte* out);

// A small whole number as an element of a type that can be combined; unsigned ones wrap.
void store_number(ElementType element, std::int64_t number, std::byte* out);

}  // namespace retile
