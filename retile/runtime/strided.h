// Rearranging arrays on one device: every element of the result is one of the operand, at a place that grows by a fixed
// stride along each dimension.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "retile/types/distributed_type.h"

namespace retile::runtime {

// Element i of the view is element offset + Σ i[d] · strides[d] of a row-major array.
struct StridedView {
  Shape shape;
  Shape strides;  // in elements; 0 where elements repeat
  std::int64_t offset = 0;
};

// How far apart neighbours along each dimension of a row-major array are, in elements.
Shape row_major_strides(const Shape& shape);

// Views of an array of this shape.
StridedView transposed(const Shape& shape, std::span<const std::int64_t> permutation);
// Dimensions align at the end; those of size 1 repeat.
StridedView repeated(const Shape& shape, const Shape& target);
StridedView sliced(const Shape& shape, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi);

// An equal view whose dimensions are joined where elements lie side by side, so that rows are long.
StridedView with_long_rows(const StridedView& view);

// The view's elements, row-major.
void copy_from_view(const StridedView& view, const std::byte* array, std::byte* out, std::int64_t element_size);

// Calls visit(start) for each row of the view, in row-major order: the place of the row's first element. The last
// dimension is the row; a scalar is a row of one element. An empty view has no rows.
template <typename Visit>
void for_each_row(const StridedView& view, Visit visit) {
  if (std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end()) return;
  const std::size_t outer = view.shape.empty() ? 0 : view.shape.size() - 1;
  Shape index(outer, 0);
  std::int64_t start = view.offset;
  while (true) {
    visit(start);
    std::size_t d = outer;
    for (; d > 0; --d) {
      start += view.strides[d - 1];
      if (++index[d - 1] < view.shape[d - 1]) break;
      start -= view.strides[d - 1] * view.shape[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

inline std::int64_t row_length(const StridedView& view) { return view.shape.empty() ? 1 : view.shape.back(); }
inline std::int64_t row_stride(const StridedView& view) { return view.strides.empty() ? 1 : view.strides.back(); }

}  // namespace retile::runtime
