#include "retile/transfer/page_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/problems.h"

namespace retile::transfer {
namespace {

using test::RandomProblems;

constexpr Device device_count = 3;
constexpr std::size_t array_count = 6;

std::int64_t number(RandomProblems& random, std::size_t least, std::size_t most) {
  return static_cast<std::int64_t>(least + random.number(most - least + 1));
}

// Later elements behind earlier ones, with small gaps and large ones between them; now and then in another order.
Strides any_strides(RandomProblems& random, const Shape& extent, std::int64_t element_size) {
  Strides strides(extent.size());
  std::int64_t span = element_size;
  for (std::size_t i = extent.size(); i-- > 0;) {
    const std::int64_t gap = random.pick(std::vector<std::int64_t>{0, 0, 64, 4000, 4095, 4096, 5000, 20000});
    strides[i] = span + gap;
    span += (extent[i] - 1) * strides[i];
  }
  if (random.number(5) == 0) std::swap(strides.front(), strides.back());
  return strides;
}

Streams any_streams(RandomProblems& random) {
  Streams streams;
  streams.device_count = device_count;
  streams.array_count = array_count;
  streams.rounds = number(random, 1, 12);
  for (int i = 0; i < 4; ++i) {
    PieceShape shape;
    shape.element_size = random.pick(std::vector<std::int64_t>{1, 4, 16});
    for (std::size_t rank = 1 + random.number(3); rank > 0; --rank) shape.extent.push_back(number(random, 1, 9));
    shape.from = any_strides(random, shape.extent, shape.element_size);
    shape.to = any_strides(random, shape.extent, shape.element_size);
    streams.shapes.push_back(shape);
  }
  for (Device from = 0; from < device_count; ++from) {
    for (Device to = 0; to < device_count; ++to) {
      std::int64_t bytes = 0;
      // Half of the arrays are equal.
      std::vector<StreamPiece> equal;
      for (std::size_t array = 0; array < array_count; ++array) {
        std::vector<StreamPiece> pieces = equal;
        for (std::size_t count = random.number(3); pieces.empty() && count > 0; --count) {
          pieces.push_back(
              {static_cast<std::uint32_t>(random.number(4)), 0, number(random, 0, 50000), number(random, 0, 50000), 0});
        }
        if (array < array_count / 2) equal = pieces;
        for (StreamPiece& piece : pieces) {
          piece.array = static_cast<std::uint32_t>(array);
          bytes += streams.shapes[piece.shape].bytes();
          streams.pieces.push_back(piece);
        }
      }
      streams.end_stream(from, to, bytes);
    }
  }
  return streams;
}

using RoundsByPage = std::map<std::pair<std::size_t, std::int64_t>, std::int64_t>;  // array and page

// Byte by byte.
RoundsByPage count_bytes(const Streams& streams, Device device, PageUse use) {
  RoundsByPage rounds;
  const bool is_read = use == PageUse::last_read;
  for (const Stream& stream : streams.streams) {
    if ((is_read ? stream.from : stream.to) != device) continue;
    std::int64_t at = 0;
    std::int64_t round = 0;
    for (const StreamPiece& piece : streams.pieces_of(stream)) {
      const PieceShape& shape = streams.shapes[piece.shape];
      for (std::int64_t byte = 0; byte < shape.bytes(); ++byte, ++at) {
        while (at >= streams.part_of(stream.bytes, round).end) ++round;
        std::int64_t place = (is_read ? piece.from_offset : piece.to_offset) + byte % shape.element_size;
        std::int64_t element = byte / shape.element_size;
        for (std::size_t i = shape.extent.size(); i-- > 0; element /= shape.extent[i]) {
          place += element % shape.extent[i] * (is_read ? shape.from : shape.to)[i];
        }
        const auto [found, is_new] = rounds.try_emplace({piece.array, place / page_bytes()}, round);
        if (!is_new) found->second = is_read ? std::max(found->second, round) : std::min(found->second, round);
      }
    }
  }
  return rounds;
}

TEST(PageRounds, are_those_of_every_byte) {
  RandomProblems random(51);
  for (int i = 0; i < (test::is_sweep() ? 3000 : 150); ++i) {
    Streams streams = any_streams(random);
    PageRounds page_rounds(streams);
    for (const std::int64_t rounds : {streams.rounds, 2 * streams.rounds}) {
      streams.rounds = rounds;
      for (const PageUse use : {PageUse::last_read, PageUse::first_write}) {
        for (Device device = 0; device < device_count; ++device) {
          RoundsByPage found;
          page_rounds.visit_tiles(device, use, [&](std::size_t array, const std::vector<PageRun>& runs) {
            std::int64_t page = 0;
            for (const PageRun& run : runs) {
              for (const std::int64_t end = page + run.pages; page < end; ++page) {
                if (run.round != PageRun::never) found[{array, page}] = run.round;
              }
            }
          });
          ASSERT_EQ(found, count_bytes(streams, device, use)) << i;
        }
      }
    }
  }
}

TEST(PageRounds, are_runs_of_pages) {
  Streams streams;
  streams.device_count = 2;
  streams.array_count = 1;
  streams.rounds = 2;
  streams.shapes = {{{1000, 8192}, {8192, 1}, {8192, 1}, 1}};
  streams.pieces = {{}};
  streams.end_stream(0, 1, 8192000);
  PageRounds page_rounds(streams);
  page_rounds.visit_tiles(0, PageUse::last_read, [](std::size_t array, const std::vector<PageRun>& runs) {
    EXPECT_EQ(array, 0U);
    EXPECT_EQ(runs, (std::vector<PageRun>{{1000, 0}, {1000, 1}}));
  });
}

}  // namespace
}  // namespace retile::transfer
