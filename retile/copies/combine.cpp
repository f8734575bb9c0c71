#include "retile/copies/combine.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "retile/base/error.h"

namespace retile {
namespace {

// --- Numbers in which rows are combined, and elements as they are stored.

template <typename Element>
struct Stored {
  using Number = Element;
  static Number load(Element element) { return element; }
  static Element store(Number number) { return number; }
};
template <>
struct Stored<Eigen::half> {
  using Number = float;
  static float load(Eigen::half element) { return static_cast<float>(element); }
  static Eigen::half store(float number) { return Eigen::half(number); }
};
template <>
struct Stored<Eigen::bfloat16> {
  using Number = float;
  static float load(Eigen::bfloat16 element) { return static_cast<float>(element); }
  // NaN keeps what it carries, which Eigen drops.
  static Eigen::bfloat16 store(float number) {
    if (number == number) return Eigen::bfloat16(number);
    const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16U);
    return Eigen::numext::bit_cast<Eigen::bfloat16>(static_cast<std::uint16_t>(bits | 0x40U));
  }
};

template <typename Number>
Number add(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>) {
    using Wrapping = std::make_unsigned_t<Number>;
    return static_cast<Number>(static_cast<Wrapping>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b)));
  } else {
    return a + b;
  }
}

template <typename Number>
Number larger(Number a, Number b) {
  return a > b || a != a ? a : b;
}

template <typename Number>
Number smaller(Number a, Number b) {
  return a < b || a != a ? a : b;
}

// Blocks stay in the first-level cache while the rows go by.
constexpr std::int64_t combined_block = 1024;  // elements

template <typename Element, typename Combine>
void combine_blocks(std::int64_t rows, std::int64_t row_elements, std::int64_t first, std::int64_t count,
                    const std::byte* in, std::byte* out, Combine combine) {
  using Number = typename Stored<Element>::Number;
  constexpr auto size = static_cast<std::int64_t>(sizeof(Element));
  std::array<Number, combined_block> sums{};
  std::array<Element, combined_block> elements{};
  for (std::int64_t begin = first; begin < first + count; begin += combined_block) {
    const std::int64_t length = std::min(combined_block, first + count - begin);
    const auto bytes = static_cast<std::size_t>(length * size);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::memcpy(elements.data(), in + (row * row_elements + begin) * size, bytes);
      for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) {
        const Number number = Stored<Element>::load(elements[i]);
        sums[i] = row == 0 ? number : combine(sums[i], number);
      }
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i) elements[i] = Stored<Element>::store(sums[i]);
    std::memcpy(out + begin * size, elements.data(), bytes);
  }
}

template <typename Action>
void with_element(ElementType element, Action action) {
  switch (element) {
    case ElementType::i8:
      return action(std::int8_t{});
    case ElementType::i16:
      return action(std::int16_t{});
    case ElementType::i32:
      return action(std::int32_t{});
    case ElementType::i64:
      return action(std::int64_t{});
    case ElementType::u8:
      return action(std::uint8_t{});
    case ElementType::u16:
      return action(std::uint16_t{});
    case ElementType::u32:
      return action(std::uint32_t{});
    case ElementType::u64:
      return action(std::uint64_t{});
    case ElementType::f16:
      return action(Eigen::half{});
    case ElementType::bf16:
      return action(Eigen::bfloat16{});
    case ElementType::f32:
      return action(float{});
    case ElementType::f64:
      return action(double{});
    case ElementType::c64:
      return action(std::complex<float>{});
    case ElementType::c128:
      return action(std::complex<double>{});
    case ElementType::boolean:
    case ElementType::f8e4m3fn:
    case ElementType::f8e5m2:
      break;
  }
  throw InternalError("elements of this type cannot be combined");
}

template <typename Number>
constexpr bool is_ordered = std::is_arithmetic_v<Number>;

}  // namespace

void combine_rows(Reduction reduction, ElementType element, std::int64_t rows, std::int64_t row_elements,
                  const std::byte* in, std::byte* out) {
  combine_rows(reduction, element, rows, row_elements, 0, row_elements, in, out);
}

void combine_rows(Reduction reduction, ElementType element, std::int64_t rows, std::int64_t row_elements,
                  std::int64_t first, std::int64_t count, const std::byte* in, std::byte* out) {
  with_element(element, [&]<typename Element>(Element /*zero*/) {
    using Number = typename Stored<Element>::Number;
    const auto run = [&](auto combine) { combine_blocks<Element>(rows, row_elements, first, count, in, out, combine); };
    if (reduction == Reduction::sum) return run(add<Number>);
    if constexpr (is_ordered<Number>) {
      if (reduction == Reduction::max) return run(larger<Number>);
      return run(smaller<Number>);
    }
    throw InternalError("complex numbers have no order");
  });
}

void store_number(ElementType element, std::int64_t number, std::byte* out) {
  with_element(element, [&]<typename Element>(Element /*zero*/) {
    using Number = typename Stored<Element>::Number;
    Element stored{};
    if constexpr (is_ordered<Number>) {
      stored = Stored<Element>::store(static_cast<Number>(number));
    } else {
      stored =
          Number(static_cast<typename Number::value_type>(number), static_cast<typename Number::value_type>(-number));
    }
    std::memcpy(out, &stored, sizeof stored);
  });
}

}  // namespace retile
