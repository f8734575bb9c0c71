#include "retile/runtime/strided.h"

#include <algorithm>

#include "retile/base/error.h"
#include "retile/base/list.h"

namespace retile::runtime {
namespace {

template <typename Word>
void gather(const StridedView& view, const Word* array, Word* out) {
  const std::int64_t length = row_length(view);
  const std::int64_t stride = row_stride(view);
  for_each_row(view, [&](std::int64_t start) {
    const Word* row = array + start;
    if (stride == 1) {
      std::copy_n(row, length, out);
    } else {
      for (std::int64_t i = 0; i < length; ++i) out[i] = row[i * stride];
    }
    out += length;
  });
}

}  // namespace

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) strides[d] = stride;
  return strides;
}

StridedView transposed(const Shape& shape, std::span<const std::int64_t> permutation) {
  const Shape strides = row_major_strides(shape);
  StridedView view;
  for (const std::int64_t dimension : permutation) {
    view.shape.push_back(at(shape, dimension));
    view.strides.push_back(at(strides, dimension));
  }
  return view;
}

StridedView repeated(const Shape& shape, const Shape& target) {
  const Shape strides = row_major_strides(shape);
  StridedView view{target, Shape(target.size(), 0)};
  const std::size_t added = target.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) view.strides[added + d] = shape[d] == 1 ? 0 : strides[d];
  return view;
}

StridedView sliced(const Shape& shape, std::span<const std::int64_t> lo, std::span<const std::int64_t> hi) {
  StridedView view{{}, row_major_strides(shape)};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    view.shape.push_back(hi[d] - lo[d]);
    view.offset += lo[d] * view.strides[d];
  }
  return view;
}

StridedView with_long_rows(const StridedView& view) {
  StridedView joined{{}, {}, view.offset};
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    const bool side_by_side = d > 0 && joined.strides.back() == view.strides[d] * view.shape[d];
    if (side_by_side) {
      joined.shape.back() *= view.shape[d];
      joined.strides.back() = view.strides[d];
    } else {
      joined.shape.push_back(view.shape[d]);
      joined.strides.push_back(view.strides[d]);
    }
  }
  return joined;
}

void copy_from_view(const StridedView& view, const std::byte* array, std::byte* out, std::int64_t element_size) {
  if (element_size == 4) {
    gather(view, reinterpret_cast<const std::uint32_t*>(array), reinterpret_cast<std::uint32_t*>(out));
  } else {
    ensure(element_size == 8, "elements of programs have 4 or 8 bytes");
    gather(view, reinterpret_cast<const std::uint64_t*>(array), reinterpret_cast<std::uint64_t*>(out));
  }
}

}  // namespace retile::runtime
