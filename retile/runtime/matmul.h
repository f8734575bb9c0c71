// Products of matrices on one device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "retile/types/element_type.h"

namespace retile::runtime {

struct MatmulSizes {
  std::int64_t batches = 1;
  std::int64_t rows = 1;
  std::int64_t inner = 1;
  std::int64_t columns = 1;
};

// [batches, rows, inner] times [batches, inner, columns], all row-major; f32, f64 or i32, which wraps. The order of the
// additions depends on the sizes alone: equal operands give equal bits on every thread and every host of one kind.
void matmul(ElementType element, const MatmulSizes& sizes, const std::byte* left, const std::byte* right,
            std::byte* out);

}  // namespace retile::runtime
