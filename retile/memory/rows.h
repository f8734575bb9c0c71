// The rows of a box: runs of elements along its last dimension.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "retile/types/box.h"

namespace retile {

// Row-major number of an element of the box.
inline std::int64_t element_number(const Box& box, const Shape& element) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    number = number * (box.hi[i] - box.lo[i]) + element[i] - box.lo[i];
  }
  return number;
}

// Goes to the next row of the box: a part of its last dimension. False after the last one.
inline bool next_row(const Box& box, Shape& element, std::int64_t length) {
  if (element.empty()) return false;
  element.back() += length;
  for (std::size_t i = element.size() - 1; element[i] >= box.hi[i]; --i) {
    element[i] = box.lo[i];
    if (i == 0) return false;
    ++element[i - 1];
  }
  return true;
}

// So that rows that are made up take little memory, in elements.
constexpr std::int64_t longest_row = 4096;

inline std::int64_t row_length(const Box& box, const Shape& element) {
  return element.empty() ? 1 : std::min(longest_row, box.hi.back() - element.back());
}

// Calls visit(first element of the row, bytes of the row) for each row of the box.
template <typename Visit>
void for_each_row(const Box& box, std::int64_t element_size, Visit visit) {
  if (volume(box) == 0) return;
  Shape element = box.lo;
  std::int64_t length = 0;
  do {
    length = row_length(box, element);
    visit(std::as_const(element), static_cast<std::size_t>(length * element_size));
  } while (next_row(box, element, length));
}

}  // namespace retile
