#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "retile/engines/cuda/kernels.h"

namespace retile::cuda {
namespace {

// --- Copies.

template <std::size_t in_flight, int blocks_at_once>
__global__ void __launch_bounds__(block_threads, blocks_at_once)
    copy_chunks(ChunkKernel kernel, const std::byte* const* sources, std::byte* const* targets) {
  __shared__ ChunkShape shape;
  const Chunk chunk = kernel.chunks[blockIdx.x];
  const ChunkPiece piece = kernel.pieces[chunk.piece];
  const auto* const words = reinterpret_cast<const std::uint32_t*>(kernel.shapes + piece.shape);
  for (std::uint32_t i = threadIdx.x; i < sizeof(ChunkShape) / 4; i += block_threads) {
    reinterpret_cast<std::uint32_t*>(&shape)[i] = words[i];
  }
  const RunPlace first{sources[piece.from_tile] + piece.from_offset, targets[piece.to_tile] + piece.to_offset};
  __syncthreads();
  copy_chunk<in_flight>(shape, first, chunk.number, threadIdx.x, block_threads);
}

// --- Reductions: in the order of the rows, with the bits of the host, NaN included.

struct Complex64 {
  float real, imaginary;
};
struct Complex128 {
  double real, imaginary;
};

__device__ float quiet(float number) { return __uint_as_float(__float_as_uint(number) | 0x00400000U); }
__device__ double quiet(double number) {
  return __longlong_as_double(__double_as_longlong(number) | 0x0008000000000000LL);
}
__device__ float made_nan(float) { return __uint_as_float(0xFFC00000U); }
__device__ double made_nan(double) { return __longlong_as_double(static_cast<long long>(0xFFF8000000000000ULL)); }

// A NaN keeps what it carries, the first one's; one that comes of infinities is the host's.
template <typename Number>
__device__ Number add_reals(Number a, Number b) {
  if (a != a) return quiet(a);
  if (b != b) return quiet(b);
  const Number sum = a + b;
  return sum != sum ? made_nan(sum) : sum;
}

struct Add {
  __device__ float operator()(float a, float b) const { return add_reals(a, b); }
  __device__ double operator()(double a, double b) const { return add_reals(a, b); }
  template <typename Integer>
  __device__ Integer operator()(Integer a, Integer b) const {
    using Wrapping = std::make_unsigned_t<Integer>;
    return static_cast<Integer>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  }
  __device__ Complex64 operator()(Complex64 a, Complex64 b) const {
    return {add_reals(a.real, b.real), add_reals(a.imaginary, b.imaginary)};
  }
  __device__ Complex128 operator()(Complex128 a, Complex128 b) const {
    return {add_reals(a.real, b.real), add_reals(a.imaginary, b.imaginary)};
  }
};
struct Larger {
  template <typename Number>
  __device__ Number operator()(Number a, Number b) const {
    return a > b || a != a ? a : b;
  }
};
struct Smaller {
  template <typename Number>
  __device__ Number operator()(Number a, Number b) const {
    return a < b || a != a ? a : b;
  }
};

template <typename Element>
struct Stored {
  using Number = Element;
  __device__ static Number load(Element element) { return element; }
  __device__ static Element store(Number number) { return number; }
};
template <>
struct Stored<__half> {
  using Number = float;
  __device__ static float load(__half element) {
    const std::uint32_t bits = __half_as_ushort(element);
    if ((bits & 0x7FFFU) <= 0x7C00U) return __half2float(element);
    return __uint_as_float((bits & 0x8000U) << 16U | 0x7F800000U | (bits & 0x3FFU) << 13U);
  }
  __device__ static __half store(float number) {
    if (number == number) return __float2half_rn(number);
    return __ushort_as_half(static_cast<unsigned short>(__float_as_uint(number) >> 16U & 0x8000U | 0x7E00U));
  }
};
template <>
struct Stored<__nv_bfloat16> {
  using Number = float;
  __device__ static float load(__nv_bfloat16 element) {
    return __uint_as_float(static_cast<std::uint32_t>(__bfloat16_as_ushort(element)) << 16U);
  }
  __device__ static __nv_bfloat16 store(float number) {
    if (number == number) return __float2bfloat16_rn(number);
    return __ushort_as_bfloat16(static_cast<unsigned short>(__float_as_uint(number) >> 16U | 0x40U));
  }
};

template <typename Element, typename Combine>
__global__ void combine(std::int64_t rows, std::int64_t row_elements, const Element* in, Element* out,
                        Combine combine_two) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < row_elements; i += step) {
    auto sum = Stored<Element>::load(in[i]);
    for (std::int64_t row = 1; row < rows; ++row) {
      sum = combine_two(sum, Stored<Element>::load(in[row * row_elements + i]));
    }
    out[i] = Stored<Element>::store(sum);
  }
}

template <typename Element, typename Combine>
cudaError_t launch(std::int64_t rows, std::int64_t row_elements, const std::byte* in, std::byte* out,
                   cudaStream_t stream) {
  if (row_elements == 0) return cudaSuccess;
  constexpr std::int64_t threads = 256;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((row_elements + threads - 1) / threads, 65536));
  combine<<<blocks, threads, 0, stream>>>(rows, row_elements, reinterpret_cast<const Element*>(in),
                                          reinterpret_cast<Element*>(out), Combine{});
  return cudaGetLastError();
}

template <typename Element>
cudaError_t launch_ordered(Reduction reduction, std::int64_t rows, std::int64_t row_elements, const std::byte* in,
                           std::byte* out, cudaStream_t stream) {
  if (reduction == Reduction::max) return launch<Element, Larger>(rows, row_elements, in, out, stream);
  if (reduction == Reduction::min) return launch<Element, Smaller>(rows, row_elements, in, out, stream);
  return launch<Element, Add>(rows, row_elements, in, out, stream);
}

}  // namespace

cudaError_t launch_copies(const ChunkKernel& kernel, const std::byte* const* sources, std::byte* const* targets,
                          cudaStream_t stream) {
  if (kernel.chunk_count == 0) return cudaSuccess;
  if (kernel.is_aligned) {
    copy_chunks<aligned_in_flight, 3><<<kernel.chunk_count, block_threads, 0, stream>>>(kernel, sources, targets);
  } else {
    copy_chunks<unaligned_in_flight, 6><<<kernel.chunk_count, block_threads, 0, stream>>>(kernel, sources, targets);
  }
  return cudaGetLastError();
}

cudaError_t launch_combine(Reduction reduction, ElementType element, std::int64_t rows, std::int64_t row_elements,
                           const std::byte* in, std::byte* out, cudaStream_t stream) {
  switch (element) {
    case ElementType::i8:
      return launch_ordered<std::int8_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::i16:
      return launch_ordered<std::int16_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::i32:
      return launch_ordered<std::int32_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::i64:
      return launch_ordered<std::int64_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::u8:
      return launch_ordered<std::uint8_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::u16:
      return launch_ordered<std::uint16_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::u32:
      return launch_ordered<std::uint32_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::u64:
      return launch_ordered<std::uint64_t>(reduction, rows, row_elements, in, out, stream);
    case ElementType::f16:
      return launch_ordered<__half>(reduction, rows, row_elements, in, out, stream);
    case ElementType::bf16:
      return launch_ordered<__nv_bfloat16>(reduction, rows, row_elements, in, out, stream);
    case ElementType::f32:
      return launch_ordered<float>(reduction, rows, row_elements, in, out, stream);
    case ElementType::f64:
      return launch_ordered<double>(reduction, rows, row_elements, in, out, stream);
    case ElementType::c64:
      return launch<Complex64, Add>(rows, row_elements, in, out, stream);
    case ElementType::c128:
      return launch<Complex128, Add>(rows, row_elements, in, out, stream);
    case ElementType::boolean:
    case ElementType::f8e4m3fn:
    case ElementType::f8e5m2:
      break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace retile::cuda
