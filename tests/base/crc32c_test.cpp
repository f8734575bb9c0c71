#include "retile/base/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string_view>

namespace retile {
namespace {

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, is_the_published_one) {
  const std::vector<std::byte> zeroes(32);
  const std::vector<std::byte> ones(32, std::byte{0xFF});
  std::vector<std::byte> ascending(32);
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<std::byte>(i);
  const std::string_view digits = "123456789";
  for (const Crc32c crc : crc32c_ways()) {
    EXPECT_EQ(crc({}, 0), 0U);
    EXPECT_EQ(crc(zeroes, 0), 0x8A9136AAU);
    EXPECT_EQ(crc(ones, 0), 0x62A8AB43U);
    EXPECT_EQ(crc(ascending, 0), 0x46DD794EU);
    EXPECT_EQ(crc(std::as_bytes(std::span(digits)), 0), 0xE3069283U);
  }
}

TEST(Crc32c, is_the_same_in_all_ways) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(5000);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  const std::vector<Crc32c> ways = crc32c_ways();
  for (std::size_t length = 0; length < bytes.size(); length += 1 + length / 97) {
    const std::span<const std::byte> part = std::span(bytes).last(length);
    const auto before = static_cast<std::uint32_t>(random());
    for (const Crc32c crc : ways) ASSERT_EQ(crc(part, before), ways.front()(part, before)) << length;
  }
}

TEST(Crc32c, does_not_depend_on_how_the_bytes_come) {
  std::mt19937 random(2);
  std::vector<std::byte> bytes(3000);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  for (const std::size_t step : std::vector<std::size_t>{1, 7, 64, 96, 256, 1000}) {
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      crc = crc32c(std::span(bytes).subspan(at, std::min(step, bytes.size() - at)), crc);
    }
    EXPECT_EQ(crc, crc32c(bytes)) << step;
  }
}

}  // namespace
}  // namespace retile
