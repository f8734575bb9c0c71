#include "retile/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "retile/base/error.h"
#include "tests/support/problems.h"

namespace retile::transfer {
namespace {

// Two devices: each has four rows of an 8 x 6 array and wants three columns; of a vector, half and wants all.
class OwnBuffers : public ::testing::Test {
 protected:
  OwnBuffers() {
    for (std::size_t device = 0; device < 2; ++device) {
      rows_[device].resize(24);
      std::iota(rows_[device].begin(), rows_[device].end(), 24.0F * static_cast<float>(device));
      halves_[device] = {10.0F + static_cast<float>(device)};
      columns_[device].resize(24);
      wholes_[device].resize(2);
    }
  }

  static std::vector<TransferArray> arrays() {
    return {{"w", test::problem_of("a=2", "[4{a}8, 6]", "[8, 3{a}6]")},
            {"b", test::problem_of("a=2", "[1{a}2]", "[2]")}};
  }

  static std::vector<std::span<const std::byte>> sources(const std::vector<float> (&tiles)[2]) {
    return {std::as_bytes(std::span(tiles[0])), std::as_bytes(std::span(tiles[1]))};
  }
  static std::vector<std::span<std::byte>> targets(std::vector<float> (&tiles)[2]) {
    return {std::as_writable_bytes(std::span(tiles[0])), std::as_writable_bytes(std::span(tiles[1]))};
  }

  std::vector<ArrayMemory> memory() {
    return {{"b", sources(halves_), targets(wholes_)}, {"w", sources(rows_), targets(columns_)}};
  }

  std::string refusal(const std::vector<ArrayMemory>& memory) {
    try {
      Transfer(arrays()).run(memory);
    } catch (const RuntimeError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<float> rows_[2];
  std::vector<float> halves_[2];
  std::vector<float> columns_[2];
  std::vector<float> wholes_[2];
};

TEST_F(OwnBuffers, are_moved_as_often_as_asked) {
  Transfer transfer(arrays(), {.max_bytes = 100});
  EXPECT_EQ(transfer.devices(), (std::vector<Device>{0, 1}));
  for (int i = 0; i < 3; ++i) {
    rows_[1][0] = static_cast<float>(100 + i);
    const TransferStatistics statistics = transfer.run(memory());
    EXPECT_EQ(statistics.received_max, 12 * 4 + 4);
    EXPECT_EQ(columns_[0][12], static_cast<float>(100 + i));
    EXPECT_EQ(columns_[1][0], 3);
    EXPECT_EQ(wholes_[0], (std::vector<float>{10, 11}));
    EXPECT_EQ(wholes_[1], (std::vector<float>{10, 11}));
  }
}

TEST_F(OwnBuffers, may_have_halos_and_lie_columns_first) {
  std::vector<TransferArray> described = arrays();
  // Rows within 6 x 8, columns first in the target.
  described[0].sources = {layout_within({6, 8}, {1, 1}, 4)};
  described[0].targets = {layout_within({8, 3}, {0, 0}, 4, MemoryOrder::column_major)};
  std::vector<float> padded[2] = {std::vector<float>(48, -1), std::vector<float>(48, -1)};
  for (std::size_t device = 0; device < 2; ++device) {
    for (std::size_t i = 0; i < 24; ++i) padded[device][(i / 6 + 1) * 8 + i % 6 + 1] = rows_[device][i];
  }
  Transfer(described).run(
      std::vector<ArrayMemory>{{"w", sources(padded), targets(columns_)}, {"b", sources(halves_), targets(wholes_)}});
  for (std::size_t device = 0; device < 2; ++device) {
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t column = 0; column < 3; ++column) {
        EXPECT_EQ(columns_[device][column * 8 + row], static_cast<float>(row * 6 + device * 3 + column));
      }
    }
  }
}

TEST_F(OwnBuffers, that_do_not_fit_are_refused_by_name) {
  std::vector<ArrayMemory> wrong = memory();
  wrong.pop_back();
  EXPECT_EQ(refusal(wrong), "array \"w\" is not given");
  wrong = memory();
  wrong.push_back(wrong.front());
  EXPECT_EQ(refusal(wrong), "array \"b\" is given twice");
  wrong = memory();
  wrong[0].name = "c";
  EXPECT_EQ(refusal(wrong), "no array is called \"c\"");
  wrong = memory();
  wrong[1].targets.pop_back();
  EXPECT_EQ(refusal(wrong), "array \"w\" has 2 sources and 1 targets for 2 devices");
  wrong = memory();
  wrong[1].targets[1] = wrong[1].targets[1].first(95);
  EXPECT_EQ(refusal(wrong), "the target of \"w\" on device 1 has 95 bytes of memory, and its tile takes 96");
  wrong = memory();
  wrong[0].targets[0] = wrong[1].targets[1];
  EXPECT_THAT(refusal(wrong), ::testing::AllOf(::testing::HasSubstr("the target of \"w\" on device 1"),
                                               ::testing::HasSubstr(" overlaps ")));
}

TEST_F(OwnBuffers, under_a_cap_that_is_too_small_are_refused) {
  EXPECT_THROW(Transfer(arrays(), {.max_bytes = 3}), InputError);
}

}  // namespace
}  // namespace retile::transfer
