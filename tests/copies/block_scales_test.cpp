#include "retile/copies/block_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "retile/copies/convert.h"

namespace retile {
namespace {

using testing::Each;
using testing::ElementsAre;

// The number that eight bits of f8e4m3fn are, as its definition has it.
float value_of(std::byte byte) {
  const auto bits = std::to_integer<unsigned>(byte);
  const float sign = (bits & 0x80U) != 0 ? -1 : 1;
  const unsigned exponent = (bits >> 3U) & 0xFU;
  const auto fraction = static_cast<float>(bits & 7U);
  if ((bits & 0x7FU) == 0x7FU) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, -9);
  return sign * std::ldexp(8 + fraction, static_cast<int>(exponent) - 10);
}

// The nearest of all numbers of f8e4m3fn; of two, the even one.
std::byte nearest(float value) {
  std::byte best{};
  for (unsigned bits = 0; bits < 0x7FU; ++bits) {
    const auto byte = static_cast<std::byte>(bits);
    const float distance = std::abs(value_of(byte) - std::abs(value));
    const float least = std::abs(value_of(best) - std::abs(value));
    if (distance < least || (distance == least && bits % 2 == 0)) best = byte;
  }
  return std::signbit(value) ? best | std::byte{0x80} : best;
}

const std::byte* bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)).data(); }

// Values scaled as one block, which is as long as they are.
std::vector<std::byte> converted(const std::vector<float>& values, float* inverse = nullptr) {
  const auto count = static_cast<std::int64_t>(values.size());
  BlockScales scales({{0}, {count}}, {count});
  scales.measure(bytes_of(values), {}, ElementType::f32);
  scales.finish();
  if (inverse != nullptr) *inverse = *scales.inverses();
  std::vector<std::byte> result(values.size());
  scales.convert(ElementType::f32, {{0}, {count}}, 0, count, bytes_of(values), result.data());
  return result;
}

TEST(BlockScales, round_to_the_nearest_and_ties_to_even) {
  std::vector<float> values{448};  // so that the scale is 1
  for (unsigned bits = 0; bits < 0x7EU; ++bits) {
    const float below = value_of(static_cast<std::byte>(bits));
    const float above = value_of(static_cast<std::byte>(bits + 1));
    const float middle = (below + above) / 2;
    for (const float value : {below, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 448.0F)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  const std::vector<std::byte> result = converted(values);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(result[i], nearest(values[i])) << values[i];
}

TEST(BlockScales, make_the_largest_element_448) {
  float inverse = 0;
  const std::vector<std::byte> result = converted({-3.5F, 7, 0, 1.75F}, &inverse);
  EXPECT_FLOAT_EQ(inverse, 1.0F / 64);
  EXPECT_EQ(value_of(result[0]), -224);
  EXPECT_EQ(value_of(result[1]), 448);
  EXPECT_EQ(value_of(result[3]), 112);
}

TEST(BlockScales, of_zeroes_infinities_and_tiny_numbers_are_1) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  float inverse = 0;
  EXPECT_THAT(converted({0, -0.0F}, &inverse), ElementsAre(std::byte{0}, std::byte{0x80}));
  EXPECT_EQ(inverse, 1);
  EXPECT_THAT(converted({1e-40F, 0}, &inverse), Each(std::byte{0}));
  EXPECT_EQ(inverse, 1);
  const std::vector<std::byte> result = converted({-infinity, 2, 1000}, &inverse);
  EXPECT_EQ(inverse, 1);
  EXPECT_EQ(value_of(result[0]), -448);
  EXPECT_EQ(value_of(result[1]), 2);
  EXPECT_EQ(value_of(result[2]), 448);
}

TEST(BlockScales, of_blocks_with_nan_are_nan) {
  float inverse = 0;
  const std::vector<std::byte> result = converted({1, std::nanf(""), std::numeric_limits<float>::infinity()}, &inverse);
  EXPECT_TRUE(std::isnan(inverse));
  for (const std::byte one : result) EXPECT_TRUE(std::isnan(value_of(one)));
}

// A matrix in one box, and in boxes that are cut across its blocks.
class Cut : public testing::TestWithParam<ElementType> {
 protected:
  static constexpr std::int64_t rows = 11;
  static constexpr std::int64_t columns = 17;
  static constexpr std::int64_t row_stride = 20;  // elements

  void SetUp() override {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(2 * rows * row_stride));
    for (float& value : values) value = normal(random);
    memory_.resize(values.size() * static_cast<std::size_t>(size_));
    convert_elements(ElementType::f32, GetParam(), static_cast<std::int64_t>(values.size()), bytes_of(values),
                     memory_.data());
  }

  BlockScales measured(const Box& box) const {
    BlockScales scales(box, {1, 4, 5});
    scales.measure(first_of(box), strides_, GetParam());
    return scales;
  }
  const std::byte* first_of(const Box& box) const {
    return memory_.data() + box.lo[0] * strides_[0] + box.lo[1] * strides_[1] + box.lo[2] * strides_[2];
  }
  // What the scales make of an element.
  std::byte at(const BlockScales& scales, const Shape& element) const {
    const Box box = box_at(element, {1, 1, 1});
    std::byte result{};
    scales.convert(GetParam(), box, 0, 1, first_of(box), &result);
    return result;
  }

  const std::int64_t size_ = bytes_of(GetParam());
  const Strides strides_{rows * row_stride * size_, row_stride* size_, size_};
  std::vector<std::byte> memory_;
  static std::int64_t bytes_of(ElementType type) { return retile::bytes_of(type); }
  static const std::byte* bytes_of(const std::vector<float>& values) { return std::as_bytes(std::span(values)).data(); }
};

TEST_P(Cut, boxes_that_share_maxima_have_the_bits_of_the_whole) {
  BlockScales whole = measured({{0, 0, 0}, {2, rows, columns}});
  whole.finish();
  EXPECT_EQ(whole.blocks(), (Box{{0, 0, 0}, {2, 3, 4}}));
  const std::vector<Box> boxes{
      {{0, 0, 0}, {2, 3, columns}}, {{0, 3, 0}, {2, rows, 7}}, {{0, 3, 7}, {2, rows, columns}}};
  std::vector<BlockScales> parts;
  for (const Box& box : boxes) parts.push_back(measured(box));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < parts.size(); ++j) {
      const auto shared = intersect(parts[i].blocks(), parts[j].blocks());
      if (i == j || !shared) continue;
      float* room = parts[i].add_shared(*shared);
      const BlockScales other = measured(boxes[j]);
      const Shape table = extent_of(other.blocks());
      for (std::int64_t a = shared->lo[0]; a < shared->hi[0]; ++a) {
        for (std::int64_t b = shared->lo[1]; b < shared->hi[1]; ++b) {
          for (std::int64_t c = shared->lo[2]; c < shared->hi[2]; ++c) {
            const Shape& lo = other.blocks().lo;
            const auto place = ((a - lo[0]) * table[1] + (b - lo[1])) * table[2] + (c - lo[2]);
            *room++ = BlockScales(other).maxima()[place];
          }
        }
      }
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].finish();
    const Box& box = boxes[i];
    for (std::int64_t a = box.lo[0]; a < box.hi[0]; ++a) {
      for (std::int64_t b = box.lo[1]; b < box.hi[1]; ++b) {
        for (std::int64_t c = box.lo[2]; c < box.hi[2]; ++c) EXPECT_EQ(at(parts[i], {a, b, c}), at(whole, {a, b, c}));
      }
    }
  }
}

TEST_P(Cut, any_range_of_a_box_is_converted_alike) {
  BlockScales scales = measured({{0, 0, 0}, {2, rows, columns}});
  scales.finish();
  const Box box{{0, 2, 3}, {2, 9, 16}};
  std::vector<std::byte> packed;
  for (std::int64_t a = 0; a < 2; ++a) {
    for (std::int64_t b = 2; b < 9; ++b) {
      const std::byte* row = first_of({{a, b, 3}, {}});
      packed.insert(packed.end(), row, row + 13 * size_);
    }
  }
  for (const std::int64_t begin : {0, 1, 12, 13, 50, 91, 181}) {
    const std::int64_t count = std::min<std::int64_t>(95, volume(box) - begin);
    std::vector<std::byte> result(static_cast<std::size_t>(count));
    scales.convert(GetParam(), box, begin, count, packed.data() + begin * size_, result.data());
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t element = begin + i;
      EXPECT_EQ(result[static_cast<std::size_t>(i)],
                at(scales, {element / 91, 2 + element / 13 % 7, 3 + element % 13}));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(BlockScales, Cut, testing::Values(ElementType::f32, ElementType::bf16, ElementType::f64),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace retile
