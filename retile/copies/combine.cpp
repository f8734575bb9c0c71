#include "retile/copies/combine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <complex>
#include <cstring>
#include <type_traits>

#include "retile/base/error.h"

namespace retile {
namespace {

// --- Halves, as bits.

struct Half {
  std::uint16_t bits;
};
struct BrainFloat {
  std::uint16_t bits;
};

float widen(BrainFloat value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U); }

// To the nearest, ties to even.
BrainFloat narrow_to_brain(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (value != value) return {static_cast<std::uint16_t>((bits >> 16U) | 0x40U)};
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U)};
}

float widen(Half value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (value.bits >> 10U) & 0x1FU;
  const std::uint32_t fraction = value.bits & 0x3FFU;
  if (exponent == 0x1FU) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  const float tiny = static_cast<float>(fraction) * 0x1p-24F;  // below the smallest normal number
  return sign == 0 ? tiny : -tiny;
}

Half narrow_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16U) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return {static_cast<std::uint16_t>(sign | 0x7E00U)};
  if (magnitude >= 0x477FF000U) return {static_cast<std::uint16_t>(sign | 0x7C00U)};  // rounds to infinity
  if (magnitude < 0x38800000U) {
    // Adding 0.5 leaves the wanted bits, rounded, at the end of the sum's.
    const float sum = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(sum) - 0x3F000000U))};
  }
  const std::uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13U) & 1U);
  return {static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13U))};
}

// --- Numbers in which rows are combined, and elements as they are stored.

template <typename Element>
struct Stored {
  using Number = Element;
  static Number load(Element element) { return element; }
  static Element store(Number number) { return number; }
};
template <>
struct Stored<Half> {
  using Number = float;
  static float load(Half element) { return widen(element); }
  static Half store(float number) { return narrow_to_half(number); }
};
template <>
struct Stored<BrainFloat> {
  using Number = float;
  static float load(BrainFloat element) { return widen(element); }
  static BrainFloat store(float number) { return narrow_to_brain(number); }
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
constexpr std::int64_t block = 1024;  // elements

template <typename Element, typename Combine>
void combine_blocks(std::int64_t rows, std::int64_t row_elements, std::int64_t first, std::int64_t count,
                    const std::byte* in, std::byte* out, Combine combine) {
  using Number = typename Stored<Element>::Number;
  constexpr auto size = static_cast<std::int64_t>(sizeof(Element));
  std::array<Number, block> sums{};
  std::array<Element, block> elements{};
  for (std::int64_t begin = first; begin < first + count; begin += block) {
    const std::int64_t length = std::min(block, first + count - begin);
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
    case ElementType::f16:
      return action(Half{});
    case ElementType::bf16:
      return action(BrainFloat{});
    case ElementType::i32:
      return action(std::int32_t{});
    case ElementType::f32:
      return action(float{});
    case ElementType::f64:
      return action(double{});
    case ElementType::c64:
      return action(std::complex<float>{});
    case ElementType::c128:
      return action(std::complex<double>{});
  }
  throw InternalError("unknown element type");
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
