// Sums, maxima and minima of rows, against arithmetic that is exact.
#include "retile/copies/combine.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

namespace retile {
namespace {

template <typename Element>
std::vector<Element> combined(Reduction reduction, ElementType element, const std::vector<std::vector<Element>>& rows) {
  std::vector<Element> in;
  for (const std::vector<Element>& row : rows) in.insert(in.end(), row.begin(), row.end());
  std::vector<Element> out(rows.front().size());
  combine_rows(reduction, element, static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(out.size()),
               reinterpret_cast<const std::byte*>(in.data()), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// What a half says, by its definition.
double value_of_half(std::uint16_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const int exponent = (bits >> 10U) & 0x1F;
  const double fraction = bits & 0x3FFU;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Combine, rows_are_added_in_order) {
  const auto expect_sums = [](auto zero, ElementType element) {
    using Number = decltype(zero);
    EXPECT_EQ(combined<Number>(Reduction::sum, element, {{1, 2}, {30, 40}, {500, 600}}),
              (std::vector<Number>{531, 642}));
  };
  expect_sums(float{}, ElementType::f32);
  expect_sums(double{}, ElementType::f64);
  expect_sums(std::int32_t{}, ElementType::i32);
}

TEST(Combine, integers_wrap) {
  EXPECT_EQ(combined<std::int8_t>(Reduction::sum, ElementType::i8, {{100, -100, 1}, {100, -100, 2}}),
            (std::vector<std::int8_t>{-56, 56, 3}));
  EXPECT_EQ(combined<std::int32_t>(Reduction::sum, ElementType::i32, {{INT32_MAX}, {1}}),
            (std::vector<std::int32_t>{INT32_MIN}));
  EXPECT_EQ(combined<std::int64_t>(Reduction::sum, ElementType::i64, {{INT64_MAX, 1}, {1, -(1LL << 60)}}),
            (std::vector<std::int64_t>{INT64_MIN, 1 - (1LL << 60)}));
  EXPECT_EQ(combined<std::uint8_t>(Reduction::sum, ElementType::u8, {{200, 1}, {100, 2}}),
            (std::vector<std::uint8_t>{44, 3}));
}

// Numbers whose first bit is set are large or negative.
TEST(Combine, integers_without_a_sign_are_compared_as_such) {
  EXPECT_EQ(combined<std::uint16_t>(Reduction::max, ElementType::u16, {{0x8000, 1}, {1, 2}}),
            (std::vector<std::uint16_t>{0x8000, 2}));
  EXPECT_EQ(combined<std::int16_t>(Reduction::max, ElementType::i16, {{INT16_MIN, 1}, {1, 2}}),
            (std::vector<std::int16_t>{1, 2}));
  EXPECT_EQ(combined<std::uint64_t>(Reduction::min, ElementType::u64, {{UINT64_MAX}, {1}}),
            (std::vector<std::uint64_t>{1}));
}

TEST(Combine, floats_are_added_in_the_order_of_the_rows) {
  const std::vector<float> sum = combined<float>(Reduction::sum, ElementType::f32, {{1e8F}, {-1e8F}, {1}});
  EXPECT_EQ(sum, std::vector<float>{1});
  const std::vector<float> other = combined<float>(Reduction::sum, ElementType::f32, {{1}, {1e8F}, {-1e8F}});
  EXPECT_EQ(other, std::vector<float>{0});
}

TEST(Combine, largest_and_smallest_are_found_and_not_a_number_wins) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> most = combined<double>(Reduction::max, ElementType::f64, {{1, 5, none}, {4, 2, 1}});
  EXPECT_EQ(most[0], 4);
  EXPECT_EQ(most[1], 5);
  EXPECT_TRUE(std::isnan(most[2]));
  const std::vector<double> least = combined<double>(Reduction::min, ElementType::f64, {{1, 5, 1}, {4, 2, none}});
  EXPECT_EQ(least[0], 1);
  EXPECT_EQ(least[1], 2);
  EXPECT_TRUE(std::isnan(least[2]));
}

TEST(Combine, complex_numbers_are_added_by_parts) {
  using Complex = std::complex<float>;
  EXPECT_EQ(combined<Complex>(Reduction::sum, ElementType::c64, {{{1, 2}}, {{3, -5}}}),
            (std::vector<Complex>{{4, -3}}));
}

// NaN becomes a quiet one.
TEST(Combine, a_half_by_itself_keeps_its_bits) {
  for (std::uint32_t bits = 0; bits <= 0xFFFFU; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool is_half_nan = (half & 0x7FFFU) > 0x7C00U;
    const bool is_brain_nan = (half & 0x7FFFU) > 0x7F80U;
    EXPECT_EQ(combined<std::uint16_t>(Reduction::sum, ElementType::f16, {{half}}).front(),
              is_half_nan ? (half & 0x8000U) | 0x7E00U : half);
    EXPECT_EQ(combined<std::uint16_t>(Reduction::sum, ElementType::bf16, {{half}}).front(),
              is_brain_nan ? half | 0x40U : half);
  }
}

// A sum of two halves is the half nearest to the exact sum; of two that are equally near, the even one.
TEST(Combine, halves_are_rounded_to_the_nearest) {
  for (std::uint32_t a = 1; a < 0x7C00U; a += 37) {
    for (std::uint32_t b = 3; b < 0x7C00U; b += 1571) {
      const double exact = value_of_half(static_cast<std::uint16_t>(a)) + value_of_half(static_cast<std::uint16_t>(b));
      if (exact >= 65504) continue;
      const std::uint16_t sum =
          combined<std::uint16_t>(Reduction::sum, ElementType::f16,
                                  {{static_cast<std::uint16_t>(a)}, {static_cast<std::uint16_t>(b)}})
              .front();
      const auto far = [&](std::uint32_t bits) {
        return std::abs(value_of_half(static_cast<std::uint16_t>(bits)) - exact);
      };
      EXPECT_LE(far(sum), far(sum + 1U)) << a << " " << b;
      EXPECT_LE(far(sum), far(sum - 1U)) << a << " " << b;
      const bool is_tie = far(sum) == far(sum + 1U) || far(sum) == far(sum - 1U);
      EXPECT_TRUE(!is_tie || sum % 2 == 0) << a << " " << b;
    }
  }
}

TEST(Combine, brain_floats_are_added_as_floats_and_rounded_once) {
  const auto brain = [](float value) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U); };
  // In steps of 2, as brain floats have them there, 256 + 1 + 1 would stay 256.
  EXPECT_EQ(combined<std::uint16_t>(Reduction::sum, ElementType::bf16, {{brain(256)}, {brain(1)}, {brain(1)}}).front(),
            brain(258));
}

TEST(Combine, a_part_of_the_rows_is_as_the_whole) {
  std::vector<std::int32_t> in(3 * 5000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int32_t>(i * i);
  std::vector<std::int32_t> whole(5000);
  std::vector<std::int32_t> parts(5000);
  const auto* bytes = reinterpret_cast<const std::byte*>(in.data());
  combine_rows(Reduction::sum, ElementType::i32, 3, 5000, bytes, reinterpret_cast<std::byte*>(whole.data()));
  for (const auto& [first, count] : {std::pair{0, 1}, {1, 1500}, {1501, 3499}}) {
    combine_rows(Reduction::sum, ElementType::i32, 3, 5000, first, count, bytes,
                 reinterpret_cast<std::byte*>(parts.data()));
  }
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(whole[7], 7 * 7 + 5007 * 5007 + 10007 * 10007);
}

}  // namespace
}  // namespace retile
