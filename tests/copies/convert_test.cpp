#include "retile/copies/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace retile {
namespace {

template <typename From, typename To>
To converted(ElementType from, ElementType to, From element) {
  // At addresses that are not aligned.
  std::vector<std::byte> in(sizeof(From) + 1);
  std::vector<std::byte> out(sizeof(To) + 1);
  std::memcpy(in.data() + 1, &element, sizeof element);
  convert_elements(from, to, 1, in.data() + 1, out.data() + 1);
  To result;
  std::memcpy(&result, out.data() + 1, sizeof result);
  return result;
}

std::uint16_t to_bf16(float number) {
  return converted<float, std::uint16_t>(ElementType::f32, ElementType::bf16, number);
}
std::uint16_t to_f16(float number) {
  return converted<float, std::uint16_t>(ElementType::f32, ElementType::f16, number);
}

TEST(Convert, rounds_to_the_nearest_and_ties_to_even) {
  EXPECT_EQ(to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // halfway: to the even one
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7F80);  // beyond the largest: infinity
  EXPECT_EQ(to_bf16(-0.0F), 0x8000);
  EXPECT_EQ(to_f16(1.0F), 0x3C00);
  EXPECT_EQ(to_f16(1.0F + std::ldexp(1.0F, -11)), 0x3C00);
  EXPECT_EQ(to_f16(1.0F + 3 * std::ldexp(1.0F, -11)), 0x3C02);
  EXPECT_EQ(to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(to_f16(std::ldexp(1.0F, -24)), 0x0001);  // the smallest of all
  EXPECT_TRUE((to_bf16(NAN) & 0x7FFFU) > 0x7F80U);
  EXPECT_TRUE((to_f16(NAN) & 0x7FFFU) > 0x7C00U);
}

TEST(Convert, goes_back_without_loss) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    for (const ElementType half : {ElementType::f16, ElementType::bf16}) {
      const auto element = static_cast<std::uint16_t>(bits);
      const auto wide = converted<std::uint16_t, float>(half, ElementType::f32, element);
      const auto wider = converted<std::uint16_t, double>(half, ElementType::f64, element);
      if (wide != wide) continue;
      EXPECT_EQ((converted<float, std::uint16_t>(ElementType::f32, half, wide)), element);
      EXPECT_EQ((converted<double, std::uint16_t>(ElementType::f64, half, wider)), element);
    }
  }
}

TEST(Convert, is_of_floating_point_numbers) {
  EXPECT_TRUE(can_convert(ElementType::f64, ElementType::bf16));
  EXPECT_FALSE(can_convert(ElementType::i8, ElementType::f32));
  EXPECT_FALSE(can_convert(ElementType::f32, ElementType::c64));
}

}  // namespace
}  // namespace retile
