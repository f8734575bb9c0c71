#include "retile/memory/tile_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/types/text.h"
#include "tests/support/error_of.h"

namespace retile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Box box{{2, 0, 5}, {4, 3, 9}};  // 2 x 3 x 4

TEST(TileLayout, packed_is_row_major) {
  EXPECT_THAT(strides_of(box, 4), ElementsAre(48, 16, 4));
  EXPECT_THAT(order_of(box), ElementsAre(0, 1, 2));
  EXPECT_THAT(packed_strides(box, 4, {2, 1, 0}), ElementsAre(4, 8, 24));
  EXPECT_THAT(order_of({box, {4, -8, 24}}), ElementsAre(2, 1, 0));
  EXPECT_THAT(strides_of(Box(), 4), IsEmpty());
}

TEST(TileLayout, reaches_from_its_lowest_to_its_highest_byte) {
  EXPECT_EQ(reach_of(box, 4)->end, 96);
  const Reach reach = reach_of({box, {-100, 0, 8}}, 4).value();
  EXPECT_EQ(reach.begin, -100);
  EXPECT_EQ(reach.end, 3 * 8 + 4);
  EXPECT_FALSE(reach_of({box, {LLONG_MAX, 16, 4}}, 4).has_value());
  EXPECT_FALSE(reach_of({box, {LLONG_MIN, 16, 4}}, 4).has_value());
  EXPECT_FALSE(reach_of({box, {std::int64_t{1} << 61, std::int64_t{1} << 61, 4}}, 4).has_value());
}

TEST(TileLayout, naive_copies_follow_the_strides) {
  const Box square{{0, 0}, {2, 2}};
  const std::vector<std::byte> columns{std::byte{1}, std::byte{3}, std::byte{2}, std::byte{4}};
  std::vector<std::byte> rows(4);
  copy_box(columns.data(), {square, {1, 2}}, rows.data(), square, square, 1);
  EXPECT_THAT(rows, ElementsAre(std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}));
}

class BufferStridesTest : public testing::Test {
 protected:
  BufferStrides require(const BufferStrides& strides) const {
    return require_strides(strides, source_, target_, devices_, 4);
  }
  std::string fault_of(const BufferStrides& strides) const {
    return test::error_of([&] { require(strides); });
  }

  const Mesh mesh_ = parse_mesh("a=2");
  const Placement source_{parse_type("[4{a}8, 6]", mesh_)};
  const Placement target_{parse_type("[8, 3{a}6]", mesh_)};
  const std::vector<Device> devices_{0, 1};
};

TEST_F(BufferStridesTest, are_left_out_where_tiles_are_packed_anyway) {
  EXPECT_TRUE(require({}).are_packed());
  EXPECT_TRUE(require({{{24, 4}, {}}, {{12, 4}, {12, 4}}}).are_packed());
  const BufferStrides one = require({{{24, 4}, {4, 16}}, {}});
  EXPECT_THAT(one.sources, ElementsAre(ElementsAre(24, 4), ElementsAre(4, 16)));
  EXPECT_THAT(one.targets, IsEmpty());
  const std::vector<Device> first{0};
  const Placement single(parse_type("[1{a}2, 6]", mesh_));
  EXPECT_TRUE(require_strides({{{INT64_MIN, 4}}, {{0, 4}}}, single, single, first, 4).are_packed())
      << "a dimension of one element is never stepped along";
}

TEST_F(BufferStridesTest, are_refused_with_a_sentence) {
  EXPECT_EQ(fault_of({{{24, 4}}, {}}), "the run is given strides of 1 source buffers for 2 devices");
  EXPECT_EQ(fault_of({{}, {{12, 4}, {12, 4}, {12, 4}}}), "the run is given strides of 3 target buffers for 2 devices");
  EXPECT_EQ(fault_of({{{24, 4}, {24}}, {}}), "the strides [24] of device 1's source are of 1 dimensions instead of 2");
  EXPECT_EQ(fault_of({{{24, 4}, {INT64_MAX, 4}}, {}}),
            "the strides [9223372036854775807, 4] of device 1's source lead beyond 62 bits");
  EXPECT_EQ(fault_of({{}, {{12, 4}, {0, 4}}}),
            "the strides [0, 4] of device 1's target put elements into the same memory");
  EXPECT_EQ(fault_of({{}, {{8, 4}, {12, 4}}}),
            "the strides [8, 4] of device 0's target put elements into the same memory");
  EXPECT_EQ(fault_of({{}, {{12, 3}, {12, 4}}}),
            "the strides [12, 3] of device 0's target put elements into the same memory");
  EXPECT_EQ(fault_of({{{0, 4}, {8, 4}}, {{-12, 4}, {4, 32}}}), "") << "sources may repeat elements";
}

}  // namespace
}  // namespace retile
