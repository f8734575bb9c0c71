// What the threads of a GPU copy, done here one thread after the other.
#include "retile/engines/cuda/chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "retile/types/text.h"

namespace retile::cuda {
namespace {

TEST(Divisor, divides_as_the_processor_does) {
  std::mt19937 random(3);
  std::uniform_int_distribution<std::uint32_t> any(1, (1U << 31U) - 1);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t value = i < 1000 ? static_cast<std::uint32_t>(i + 1) : any(random) >> (i % 31);
    if (value == 0) continue;
    const std::uint32_t number = any(random) >> (i % 7);
    const Divisor divisor = divide_by(value);
    ASSERT_EQ(divisor.quotient(number), number / value) << number << " / " << value;
    ASSERT_EQ(divisor.quotient(value - 1), 0U) << value;
    ASSERT_EQ(divisor.quotient((1U << 31U) - 1), ((1U << 31U) - 1) / value) << value;
  }
}

// Memory of just so many bytes that begins anywhere in a vector: a sanitizer sees every byte beyond its end.
class Memory {
 public:
  Memory(std::int64_t bytes, std::int64_t misaligned)
      : room_(static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes + misaligned)))),
        data_(room_.get() + misaligned) {}
  std::byte* data() { return data_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> room_;
  std::byte* data_;
};

struct Side {
  Strides strides;
  std::int64_t bytes = 0;  // from the lowest element to the end of the highest
  std::int64_t first = 0;  // to the first element
};

// Strides of a random order of dimensions with random gaps, some of them negative.
Side random_side(const Shape& extent, std::int64_t element_size, std::mt19937& random) {
  std::vector<std::size_t> order(extent.size());
  std::iota(order.begin(), order.end(), 0);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Side side{Strides(extent.size()), element_size, 0};
  std::int64_t next = element_size;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t dimension = order[i];
    if (random() % 3 == 0) next += element_size * static_cast<std::int64_t>(random() % 4);
    side.strides[dimension] = next;
    side.bytes += (extent[dimension] - 1) * next;
    next *= extent[dimension];
    if (random() % 8 == 0) {
      side.first += (extent[dimension] - 1) * side.strides[dimension];
      side.strides[dimension] = -side.strides[dimension];
    }
  }
  return side;
}

PieceShape random_shape(std::mt19937& random, Side& from, Side& to) {
  const int rank = static_cast<int>(random() % 5);
  constexpr std::int64_t sizes[] = {1, 2, 4, 8, 16, 3, 12};
  const std::int64_t element_size = sizes[random() % 7];
  Shape extent;
  for (int i = 0; i < rank; ++i)
    extent.push_back(1 + static_cast<std::int64_t>(random() % (random() % 4 == 0 ? 90 : 9)));
  from = random_side(extent, element_size, random);
  to = random_side(extent, element_size, random);
  return {extent, from.strides, to.strides, element_size};
}

void copy_by_threads(const ChunkTable& table, ChunkRange range, const std::byte* from, std::byte* to,
                     std::mt19937& random) {
  const auto first = table.chunks.begin() + static_cast<std::ptrdiff_t>(range.first);
  std::vector<Chunk> chunks(first, first + static_cast<std::ptrdiff_t>(range.count));
  std::shuffle(chunks.begin(), chunks.end(), random);
  for (const Chunk& chunk : chunks) {
    const ChunkPiece& piece = table.pieces[chunk.piece];
    const RunPlace place{from + piece.from_offset, to + piece.to_offset};
    for (std::uint32_t thread = 0; thread < block_threads; ++thread) {
      copy_chunk<aligned_in_flight>(table.shapes[piece.shape], place, chunk.number, thread, block_threads);
    }
  }
}

// The box, in one launch or in several that have a range of its bytes each.
void copy_by_threads(const PieceShape& shape, const std::byte* from, std::byte* to, std::mt19937& random,
                     bool is_in_ranges) {
  ChunkLister lister;
  std::vector<ChunkRange> launches;
  if (!is_in_ranges) {
    lister.add(shape, {}, {});
    launches.push_back(lister.end_launch());
  }
  for (std::int64_t begin = 0; is_in_ranges && begin < shape.bytes();) {
    const std::int64_t length = 1 + static_cast<std::int64_t>(random()) % shape.bytes();
    const std::int64_t end = std::min(shape.bytes(), begin + length);
    lister.add(shape, {begin, end}, {}, {});
    launches.push_back(lister.end_launch());
    begin = end;
  }
  const ChunkTable table = lister.take();
  for (const ChunkRange& launch : launches) copy_by_threads(table, launch, from, to, random);
}

void expect_copied(const PieceShape& shape, const Side& from, const Side& to, std::mt19937& random,
                   bool is_in_ranges = false) {
  Memory source(from.bytes, static_cast<std::int64_t>(random() % 16));
  Memory target(to.bytes, static_cast<std::int64_t>(random() % 16));
  Memory expected(to.bytes, 0);
  for (std::int64_t i = 0; i < from.bytes; ++i) source.data()[i] = static_cast<std::byte>(random());
  std::memset(target.data(), 0x5A, static_cast<std::size_t>(to.bytes));
  std::memset(expected.data(), 0x5A, static_cast<std::size_t>(to.bytes));
  shape.copy().run(source.data() + from.first, expected.data() + to.first);
  copy_by_threads(shape, source.data() + from.first, target.data() + to.first, random, is_in_ranges);
  ASSERT_EQ(std::memcmp(target.data(), expected.data(), static_cast<std::size_t>(to.bytes)), 0)
      << to_string(shape.extent) << " of " << shape.element_size << " bytes";
}

TEST(Chunks, copy_random_boxes_as_the_processor_does) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    Side from;
    Side to;
    const PieceShape shape = random_shape(random, from, to);
    ASSERT_NO_FATAL_FAILURE(expect_copied(shape, from, to, random, i % 8 == 7)) << i;
  }
}

TEST(Chunks, of_a_range_are_few_boxes) {
  // 4 x 5 x 6 floats: the range begins in row 1 of the first matrix and ends in row 2 of the last one.
  const PieceShape shape{{4, 5, 6}, {1000, 100, 4}, {120, 24, 4}, 4};
  const std::vector<BoxPart> parts = cut_range(shape, {24 + 9, 3 * 120 + 2 * 24 + 8});
  std::vector<Shape> extents;
  std::int64_t next = 24 + 9;
  for (const BoxPart& part : parts) {
    extents.push_back(part.shape.extent);
    EXPECT_EQ(part.to_offset, next);
    next += part.shape.bytes();
  }
  EXPECT_EQ(next, 3 * 120 + 2 * 24 + 8);
  EXPECT_EQ(extents, (std::vector<Shape>{{3}, {3}, {3, 6}, {2, 5, 6}, {2, 6}, {2}}));
  EXPECT_EQ(parts.front().from_offset, 100 + 9);
  EXPECT_EQ(parts.back().from_offset, 3000 + 200);
  EXPECT_EQ(cut_range(shape, {0, 480}).size(), 1U);
  EXPECT_EQ(cut_range(shape, {7, 7}).size(), 0U);
}

TEST(Chunks, copy_long_runs_in_parts) {
  std::mt19937 random(11);
  for (const std::int64_t length : {40000, 65536, 100001}) {
    const Side from{{length + 3, 1}, 2 * length + 3, 0};
    const Side to{{length, 1}, 2 * length, 0};
    const PieceShape shape{{2, length}, from.strides, to.strides, 1};
    EXPECT_GT(cut_into_chunks(shape).front().shape.run_chunks, 1U);
    expect_copied(shape, from, to, random);
  }
}

TEST(Chunks, cut_transposed_boxes_into_patches) {
  // 100 x 70 floats, columns first on one side: patches of 32 x 32, and what is left of both.
  const PieceShape shape{{100, 70}, {280, 4}, {4, 400}, 4};
  const std::vector<ChunkBox> boxes = cut_into_chunks(shape);
  EXPECT_EQ(boxes.size(), 4U);
  EXPECT_EQ(boxes[0].shape.counts[0].value, 32U);
  EXPECT_EQ(boxes[0].shape.counts[1].value, 32U);
  EXPECT_EQ(boxes[0].shape.runs, 96U * 64U);
}

TEST(Chunks, cut_boxes_of_many_dimensions) {
  std::mt19937 random(13);
  const Shape extent(11, 2);
  const Side from = random_side(extent, 2, random);
  Side to = random_side(extent, 2, random);
  const PieceShape shape{extent, from.strides, to.strides, 2};
  for (const ChunkBox& box : cut_into_chunks(shape)) EXPECT_LE(box.shape.loops, static_cast<std::uint32_t>(most_loops));
  expect_copied(shape, from, to, random);
}

// What a table says of each chunk, whatever the order of its shapes and pieces.
std::vector<std::vector<std::int64_t>> told_by(const ChunkTable& table) {
  std::vector<std::vector<std::int64_t>> told;
  for (const Chunk& chunk : table.chunks) {
    const ChunkPiece& piece = table.pieces[chunk.piece];
    const ChunkShape& shape = table.shapes[piece.shape];
    const std::int64_t stride = shape.loops == 0 ? 0 : shape.from_strides[0];
    told.push_back({static_cast<std::int64_t>(shape.run_bytes), shape.runs, stride, piece.from_tile, piece.to_tile,
                    piece.from_offset, piece.to_offset, chunk.number});
  }
  std::sort(told.begin(), told.end());
  return told;
}

TEST(Chunks, of_each_receiver_make_up_those_of_all) {
  Streams streams;
  streams.device_count = 3;
  streams.array_count = 2;
  streams.shapes = {{{100, 70}, {280, 4}, {280, 4}, 4}, {{200, 33}, {264, 8}, {8, 1600}, 8}};
  streams.pieces = {{0, 0, 0, 0, 0}, {1, 1, 16, 4, 0}, {1, 0, 0, 0, 0}, {0, 1, 28000, 8, 0}};
  const std::pair<Device, Device> pairs[] = {{0, 1}, {0, 1}, {1, 2}, {2, 0}};
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t bytes = streams.shapes[streams.pieces[i].shape].bytes();
    streams.streams.push_back({pairs[i].first, pairs[i].second, bytes, i, 1});
  }
  const ChunkTable all = make_chunks(streams);
  ChunkTable joined;
  for (Device device = 0; device < 3; ++device) {
    Streams own = streams;
    std::erase_if(own.streams, [&](const Stream& stream) { return stream.to != device; });
    joined.append(make_chunks(own));
  }
  EXPECT_GT(all.chunks.size(), 4U);
  EXPECT_EQ(told_by(joined), told_by(all));
  EXPECT_EQ(joined.unaligned, all.unaligned);
  EXPECT_GT(joined.unaligned, 0U);
}

}  // namespace
}  // namespace retile::cuda
