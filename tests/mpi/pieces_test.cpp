// Sizes beyond what MPI counts in 32 bits, without memory of such sizes.
#include <gtest/gtest.h>

#include <climits>
#include <cstdint>

#include "retile/engines/mpi/messages.h"

namespace retile::mpi {
namespace {

constexpr std::int64_t gibibyte = std::int64_t{1} << 30U;

TEST(Pieces, cover_a_box_of_many_gibibytes_in_order) {
  const std::int64_t bytes = 37 * gibibyte + 5;
  std::int64_t pieces = 0;
  std::int64_t end = 0;
  while (end < bytes) {
    const ByteRange piece = piece_at(end, most_message_bytes, bytes);
    ASSERT_EQ(piece.begin, end);
    ASSERT_GT(piece.size(), 0);
    ASSERT_LE(piece.size(), INT_MAX);
    end = piece.end;
    ++pieces;
  }
  EXPECT_EQ(end, bytes);
  EXPECT_EQ(pieces, 38);
}

TEST(Pieces, are_short_only_at_the_end) {
  EXPECT_EQ(piece_at(0, 4, 10), (ByteRange{0, 4}));
  EXPECT_EQ(piece_at(4, 4, 10), (ByteRange{4, 8}));
  EXPECT_EQ(piece_at(8, 4, 10), (ByteRange{8, 10}));
  EXPECT_EQ(piece_at(0, 4, 4), (ByteRange{0, 4}));
}

// No sum overflows next to the largest size there is.
TEST(Pieces, end_where_sizes_end) {
  EXPECT_EQ(piece_at(INT64_MAX - 3, most_message_bytes, INT64_MAX), (ByteRange{INT64_MAX - 3, INT64_MAX}));
}

}  // namespace
}  // namespace retile::mpi
