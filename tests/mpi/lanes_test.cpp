// Sizes beyond what MPI counts in 32 bits, without memory of such sizes.
#include "retile/engines/mpi/lanes.h"

#include <gtest/gtest.h>

#include <climits>
#include <vector>

namespace retile::mpi {
namespace {

// One lane of streams with so many bytes each, in each direction.
LaneSet lanes_of(Streams& streams, const std::vector<std::int64_t>& bytes) {
  LaneSet set;
  Lane lane;
  for (const std::int64_t count : bytes) {
    lane.streams.push_back(streams.streams.size());
    lane.bytes += count;
    streams.streams.push_back({0, 1, count, 0, 0});
  }
  set.sent = {lane};
  set.received = {lane};
  return set;
}

std::int64_t bytes_in_rounds(const Streams& streams, const Lane& lane) {
  std::int64_t sum = 0;
  for (std::int64_t round = 0; round < lane.rounds; ++round) {
    std::int64_t message = 0;
    for (const std::size_t i : lane.streams) message += lane.part_of(streams.streams[i].bytes, round).size();
    EXPECT_LE(message, lane.part_bytes);
    sum += message;
  }
  return sum;
}

TEST(Lanes, cut_many_gibibytes_into_messages_that_mpi_can_count) {
  Streams streams;
  LaneSet set = lanes_of(streams, {(std::int64_t{37} << 30U) + 5, 3, std::int64_t{1} << 31U});
  set.set_most_bytes(streams, most_mpi_bytes);
  EXPECT_LE(set.longest_message(), INT_MAX);
  EXPECT_EQ(bytes_in_rounds(streams, set.sent.front()), set.sent.front().bytes);
}

TEST(Lanes, keep_to_the_bytes_of_a_message) {
  for (const std::int64_t most : {3, 7, 100, 1000}) {
    Streams streams;
    LaneSet set = lanes_of(streams, {10, 20, 999});
    set.set_most_bytes(streams, most);
    EXPECT_LE(set.longest_message(), std::max<std::int64_t>(most, 3)) << most;
    EXPECT_EQ(bytes_in_rounds(streams, set.received.front()), 1029) << most;
  }
}

// As between two ranks with 64 devices each: a message has a byte of every stream at least.
TEST(Lanes, of_many_short_streams_go_in_few_messages) {
  Streams streams;
  LaneSet set = lanes_of(streams, std::vector<std::int64_t>(4096, 8));
  set.set_most_bytes(streams, 512);
  EXPECT_EQ(set.sent.front().rounds, 8);
  EXPECT_EQ(set.longest_message(), 4096);
  EXPECT_EQ(bytes_in_rounds(streams, set.sent.front()), 8 * 4096);
}

TEST(Lanes, stage_what_is_under_way) {
  Streams streams;
  LaneSet set = lanes_of(streams, {1000});
  set.set_rounds(streams, 10);
  EXPECT_EQ(set.staging(), 2 * 2 * 100);
  set.received.front().is_direct = true;
  EXPECT_EQ(set.staging(), 2 * 100);
  set.sent.assign(5, set.sent.front());
  EXPECT_EQ(set.staging(), 5 * 2 * 100);
  set.at_once = 2;
  EXPECT_EQ(set.staging(), 2 * 2 * 100);
}

}  // namespace
}  // namespace retile::mpi
