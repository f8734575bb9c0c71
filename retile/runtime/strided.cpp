#include "retile/runtime/strided.h"

#include <utility>

#include "retile/copies/copy.h"

namespace retile::runtime {

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
  const Box box = box_at(Shape(view.shape.size()), view.shape);
  Strides strides = view.strides;
  for (std::int64_t& stride : strides) stride *= element_size;
  BoxCopy({box, std::move(strides)}, box, box, element_size).run(array + view.offset * element_size, out);
}

}  // namespace retile::runtime
