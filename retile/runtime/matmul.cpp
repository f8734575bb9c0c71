#include "retile/runtime/matmul.h"

#include <Eigen/Core>
#include <mutex>

#include "retile/base/error.h"

namespace retile::runtime {
namespace {

// Eigen cuts products into blocks that suit the caches it finds; blocks decide the order of additions. With sizes that
// are the same everywhere, so are results.
void fix_block_sizes() {
  static std::once_flag once;
  std::call_once(once, [] { Eigen::setCpuCacheSizes(32 << 10, 512 << 10, 4 << 20); });
}

template <typename Number>
void multiply_matrices(const MatmulSizes& sizes, const std::byte* left, const std::byte* right, std::byte* out) {
  using Matrix = Eigen::Matrix<Number, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto* a = reinterpret_cast<const Number*>(left);
  const auto* b = reinterpret_cast<const Number*>(right);
  auto* c = reinterpret_cast<Number*>(out);
  for (std::int64_t i = 0; i < sizes.batches; ++i) {
    Eigen::Map<Matrix>(c, sizes.rows, sizes.columns).noalias() =
        Eigen::Map<const Matrix>(a, sizes.rows, sizes.inner) * Eigen::Map<const Matrix>(b, sizes.inner, sizes.columns);
    a += sizes.rows * sizes.inner;
    b += sizes.inner * sizes.columns;
    c += sizes.rows * sizes.columns;
  }
}

}  // namespace

void matmul(ElementType element, const MatmulSizes& sizes, const std::byte* left, const std::byte* right,
            std::byte* out) {
  fix_block_sizes();
  switch (element) {
    case ElementType::f32:
      return multiply_matrices<float>(sizes, left, right, out);
    case ElementType::f64:
      return multiply_matrices<double>(sizes, left, right, out);
    case ElementType::i32:
      return multiply_matrices<std::uint32_t>(sizes, left, right, out);  // wraps
    default:
      throw InternalError("programs compute with f32, f64 and i32");
  }
}

}  // namespace retile::runtime
