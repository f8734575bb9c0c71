#include "retile/transfer/checksum.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace retile::transfer {
namespace {

TEST(Checksum, is_made_of_the_published_crc) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (int i = 0; i < 4; ++i) crc = crc32c(crc, 0);
  EXPECT_EQ(~crc, 0x8A9136AAU);  // RFC 3720, B.4: 32 bytes of zeroes
}

TEST(Checksum, is_the_same_with_and_without_the_instruction) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    const auto crc = static_cast<std::uint32_t>(random());
    const std::uint64_t word = random();
    EXPECT_EQ(crc32c(crc, word), crc32c_by_table(crc, word));
  }
}

TEST(Checksum, does_not_depend_on_how_the_bytes_come) {
  std::vector<std::byte> bytes(1000);
  std::mt19937 random(2);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random());
  Checksum whole;
  whole.add(bytes);
  Checksum parts;
  for (std::size_t at = 0; at < bytes.size(); at += 96) {
    parts.add(std::span(bytes).subspan(at, std::min<std::size_t>(96, bytes.size() - at)));
  }
  EXPECT_EQ(parts.value(), whole.value());
}

}  // namespace
}  // namespace retile::transfer
