#include "retile/copies/copy.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "tests/support/strided_memory.h"
#include "tests/support/whole_arrays.h"

namespace retile {
namespace {

struct CopyCase {
  Box from;
  Box to;
  Box box;
  std::int64_t element_size;
};

// A box of up to `rank` dimensions inside two tiles that stick out of it on some sides, in some dimensions.
CopyCase arbitrary_case(std::int64_t longest) {
  CopyCase made;
  made.element_size = *rc::gen::element(1, 2, 3, 4, 5, 8, 12, 16, 24);
  const int rank = *rc::gen::inRange(0, 5);
  const auto margin = [] { return *rc::gen::element<std::int64_t>(0, 0, 0, 1, 3); };
  for (int i = 0; i < rank; ++i) {
    const std::int64_t lo = *rc::gen::inRange<std::int64_t>(5, 8);
    const std::int64_t hi = lo + *rc::gen::inRange<std::int64_t>(1, longest);
    made.box.lo.push_back(lo);
    made.box.hi.push_back(hi);
    made.from.lo.push_back(lo - margin());
    made.from.hi.push_back(hi + margin());
    made.to.lo.push_back(lo - margin());
    made.to.hi.push_back(hi + margin());
  }
  return made;
}

Tile filled(const Box& box, std::int64_t element_size, std::uint64_t seed) {
  Shape extent(box.lo.size());
  for (std::size_t i = 0; i < extent.size(); ++i) extent[i] = box.hi[i] - box.lo[i];
  Tile tile = make_array(extent, element_size, seed);
  tile.box = box;
  return tile;
}

// Splits [0, bytes) at random places into at most five ranges.
std::vector<ByteRange> arbitrary_ranges(std::int64_t bytes) {
  std::vector<std::int64_t> cuts{0, bytes};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) cuts.push_back(*rc::gen::inRange<std::int64_t>(0, bytes + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<ByteRange> ranges;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) ranges.push_back({cuts[i], cuts[i + 1]});
  return ranges;
}

void check_case(const CopyCase& made) {
  const Tile from = filled(made.from, made.element_size, 1);
  const Tile background = filled(made.to, made.element_size, 2);
  Tile expected = background;
  copy_box(from, expected, made.box, made.element_size);

  const BoxCopy copy(made.from, made.to, made.box, made.element_size);
  RC_ASSERT(copy.bytes() == volume(made.box) * made.element_size);
  RC_ASSERT(copy.bytes() == copy.run_bytes() * copy.run_count());
  const Stores stores = *rc::gen::element(Stores::cached, Stores::streaming);
  Tile whole = background;
  copy.run(from.bytes.data(), whole.bytes.data(), stores);
  RC_ASSERT(whole.bytes == expected.bytes);

  Tile in_ranges = background;
  for (const ByteRange& range : arbitrary_ranges(copy.bytes())) {
    copy.run(from.bytes.data(), in_ranges.bytes.data(), range, stores);
  }
  RC_ASSERT(in_ranges.bytes == expected.bytes);

  // In memory that is aligned to nothing.
  const std::size_t shift = *rc::gen::inRange<std::size_t>(1, 64);
  std::vector<std::byte> shifted_from(from.bytes.size() + shift);
  std::vector<std::byte> shifted_to(expected.bytes.size() + shift);
  std::copy(from.bytes.begin(), from.bytes.end(), shifted_from.begin() + static_cast<std::ptrdiff_t>(shift));
  std::copy(background.bytes.begin(), background.bytes.end(), shifted_to.begin() + static_cast<std::ptrdiff_t>(shift));
  copy.run(shifted_from.data() + shift, shifted_to.data() + shift, stores);
  RC_ASSERT(std::equal(expected.bytes.begin(), expected.bytes.end(),
                       shifted_to.begin() + static_cast<std::ptrdiff_t>(shift)));
}

RC_GTEST_PROP(BoxCopy, agrees_with_the_naive_copy, ()) {
  for (int i = 0; i < 100; ++i) check_case(arbitrary_case(7));
}

// Long enough for the copies that go around the caches.
RC_GTEST_PROP(BoxCopy, agrees_with_the_naive_copy_on_long_runs, ()) {
  CopyCase made = arbitrary_case(3);
  for (const auto member : {&CopyCase::from, &CopyCase::to, &CopyCase::box}) {
    (made.*member).lo.push_back(0);
    (made.*member).hi.push_back(0);
  }
  made.box.lo.back() = *rc::gen::inRange<std::int64_t>(0, 3);
  made.box.hi.back() = made.box.lo.back() + *rc::gen::inRange<std::int64_t>(1, 900);
  made.from.hi.back() = made.box.hi.back() + *rc::gen::inRange<std::int64_t>(0, 3);
  made.to.hi.back() = made.box.hi.back() + *rc::gen::inRange<std::int64_t>(0, 3);
  check_case(made);
}

// Every kernel, at both ends of the lengths that it is for.
TEST(BoxCopy, copies_runs_of_every_length) {
  for (std::int64_t length = 1; length <= 600; ++length) {
    const std::int64_t rows = 5 + 5000 / length;  // some KiB of each length
    for (const std::int64_t margin : {0, 3, 4}) {
      const Box box{{0, 0}, {rows, length}};
      const Tile from = filled({{0, 0}, {rows, length + 4}}, 1, 1);
      const Tile background = filled({{0, 0}, {rows, length + margin}}, 1, 2);
      Tile expected = background;
      copy_box(from, expected, box, 1);
      for (const Stores stores : {Stores::cached, Stores::streaming}) {
        Tile to = background;
        BoxCopy(from.box, to.box, box, 1).run(from.bytes.data(), to.bytes.data(), stores);
        EXPECT_EQ(to.bytes, expected.bytes) << length << " and " << margin;
      }
    }
  }
}

RC_GTEST_PROP(BoxPacking, packs_and_unpacks_piece_by_piece, ()) {
  const CopyCase made = arbitrary_case(7);
  const Tile from = filled(made.from, made.element_size, 1);
  Tile packed = filled(made.box, made.element_size, 3);
  copy_box(from, packed, made.box, made.element_size);
  Tile expected = filled(made.to, made.element_size, 2);
  Tile to = expected;
  copy_box(from, expected, made.box, made.element_size);

  const BoxPacking packing(made.from, made.box, made.element_size, order_of(made.from));
  const BoxPacking unpacking(made.to, made.box, made.element_size, order_of(made.from));
  RC_ASSERT(packing.bytes() == volume(made.box) * made.element_size);
  for (const ByteRange& range : arbitrary_ranges(packing.bytes())) {
    std::vector<std::byte> piece(static_cast<std::size_t>(range.size()));
    packing.pack(from.bytes.data(), range, piece.data());
    RC_ASSERT(std::equal(piece.begin(), piece.end(), packed.bytes.begin() + range.begin));
    unpacking.unpack(piece.data(), range, to.bytes.data());
  }
  RC_ASSERT(to.bytes == expected.bytes);
}

TEST(BoxCopy, merges_what_lies_together_on_both_sides) {
  const Box tile{{0, 0, 0}, {4, 6, 8}};
  const BoxCopy whole(tile, tile, tile, 4);
  EXPECT_EQ(whole.run_count(), 1);
  EXPECT_EQ(whole.run_bytes(), 4 * 6 * 8 * 4);

  const BoxCopy rows(tile, tile, {{1, 2, 0}, {4, 5, 8}}, 4);
  EXPECT_EQ(rows.run_count(), 3);
  EXPECT_EQ(rows.run_bytes(), 3 * 8 * 4);

  const BoxCopy columns(tile, Box{{0, 0, 0}, {4, 6, 1}}, Box{{0, 0, 0}, {4, 6, 1}}, 4);
  EXPECT_EQ(columns.run_count(), 24);
  EXPECT_EQ(columns.run_bytes(), 4);

  const BoxPacking packing(tile, {{1, 2, 0}, {2, 5, 8}}, 4, order_of(tile));
  EXPECT_TRUE(packing.is_contiguous());
  EXPECT_EQ(packing.offset(), (6 + 2) * 8 * 4);
  EXPECT_FALSE(BoxPacking(tile, {{1, 2, 0}, {2, 5, 8}}, 4, {2, 1, 0}).is_contiguous());
}

TEST(BoxCopy, ranges_of_the_length_it_gives_begin_where_loops_do) {
  const Box from{{0, 0, 0}, {64, 32, 8}};
  const Box to{{0, 0, 0}, {64, 32, 4}};
  const BoxCopy copy(from, to, to, 4);
  EXPECT_EQ(copy.run_bytes(), 16);
  EXPECT_EQ(copy.range_length(1 << 20), 1 << 20) << "merged into one loop of 2048 runs";
  EXPECT_EQ(copy.range_length(1000), 992);
  EXPECT_EQ(copy.range_length(10), 64) << "no less than a cache line";
  const BoxCopy three(Box{{0, 0, 0}, {64, 33, 8}}, to, to, 4);
  EXPECT_EQ(three.range_length(1000), 512) << "one iteration of the outer loop";
  const BoxCopy one(from, from, from, 4);
  EXPECT_EQ(one.range_length(1000), 960) << "inside a run: whole cache lines";
}

// --- Tiles that are not packed.

// A box inside two tiles that stick out of it and lie in memory in any way.
class StridedCase {
 public:
  StridedCase(test::RandomProblems& random, std::size_t rank, std::size_t longest)
      : element_size(random.pick(std::vector<std::int64_t>{1, 2, 3, 4, 5, 8, 12, 16, 24, 40, 64})),
        box(arbitrary_box(random, rank, longest)),
        from(layout(random), element_size, 1),
        to(layout(random), element_size, 2),
        expected(to) {
    copy_box(from.first(), from.layout(), expected.first(), to.layout(), box, element_size);
  }

  std::int64_t element_size;
  Box box;
  test::StridedMemory from;
  test::StridedMemory to;
  test::StridedMemory expected;

 private:
  static Box arbitrary_box(test::RandomProblems& random, std::size_t rank, std::size_t longest) {
    Box made;
    for (std::size_t i = 0; i < rank; ++i) {
      made.lo.push_back(static_cast<std::int64_t>(4 + random.number(3)));
      made.hi.push_back(made.lo.back() + 1 + static_cast<std::int64_t>(random.number(longest)));
    }
    return made;
  }
  TileLayout layout(test::RandomProblems& random) const {
    Box tile = box;
    for (std::int64_t& lo : tile.lo) lo -= static_cast<std::int64_t>(random.number(3));
    for (std::int64_t& hi : tile.hi) hi += static_cast<std::int64_t>(random.number(3));
    if (random.number(4) == 0) return tile;
    Strides strides = test::random_strides(random, tile, element_size);
    return {std::move(tile), std::move(strides)};
  }
};

void check_copy(StridedCase& made, test::RandomProblems& random) {
  const BoxCopy copy(made.from.layout(), made.to.layout(), made.box, made.element_size);
  ASSERT_EQ(copy.bytes(), volume(made.box) * made.element_size);
  const Stores stores = random.number(2) == 0 ? Stores::cached : Stores::streaming;
  test::StridedMemory whole = made.to;
  copy.run(made.from.first(), whole.first(), stores);
  EXPECT_EQ(whole.bytes(), made.expected.bytes());

  const std::int64_t length = 1 + static_cast<std::int64_t>(random.number(static_cast<std::size_t>(copy.bytes())));
  test::StridedMemory in_ranges = made.to;
  for (std::int64_t begin = 0; begin < copy.bytes(); begin += length) {
    copy.run(made.from.first(), in_ranges.first(), {begin, std::min(begin + length, copy.bytes())}, stores);
  }
  EXPECT_EQ(in_ranges.bytes(), made.expected.bytes());

  test::StridedMemory by_runs = made.to;
  for (std::int64_t run = 0; run < copy.run_count(); ++run) {
    const auto [from, to] = copy.run_place(run);
    std::copy_n(made.from.first() + from, copy.run_bytes(), by_runs.first() + to);
  }
  EXPECT_EQ(by_runs.bytes(), made.expected.bytes());
}

void check_packing(StridedCase& made, test::RandomProblems& random) {
  DimensionOrder order;
  for (const std::int64_t dimension : random.permutation(made.box.lo.size())) {
    order.push_back(static_cast<std::size_t>(dimension));
  }
  const BoxPacking packing(made.from.layout(), made.box, made.element_size, order);
  const BoxPacking unpacking(made.to.layout(), made.box, made.element_size, order);
  Tile buffer = allocate_tile(made.box, made.element_size);
  copy_box(made.from.first(), made.from.layout(), buffer.bytes.data(),
           {made.box, packed_strides(made.box, made.element_size, order)}, made.box, made.element_size);
  if (packing.is_contiguous()) {
    EXPECT_TRUE(std::equal(buffer.bytes.begin(), buffer.bytes.end(), made.from.first() + packing.offset()));
  }
  const std::int64_t length = 1 + static_cast<std::int64_t>(random.number(static_cast<std::size_t>(packing.bytes())));
  test::StridedMemory to = made.to;
  for (std::int64_t begin = 0; begin < packing.bytes(); begin += length) {
    const ByteRange range{begin, std::min(begin + length, packing.bytes())};
    std::vector<std::byte> piece(static_cast<std::size_t>(range.size()));
    packing.pack(made.from.first(), range, piece.data());
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), buffer.bytes.begin() + begin));
    unpacking.unpack(piece.data(), range, to.first());
  }
  EXPECT_EQ(to.bytes(), made.expected.bytes());
}

TEST(StridedCopy, agrees_with_the_naive_copy_whatever_the_strides) {
  test::RandomProblems random(41);
  for (int i = 0; i < 3000; ++i) {
    StridedCase made(random, random.number(5), 7);
    check_copy(made, random);
    check_packing(made, random);
    ASSERT_FALSE(testing::Test::HasFailure()) << i;
  }
}

// Longer than the blocks that transposed copies work on.
TEST(StridedCopy, agrees_with_the_naive_copy_on_matrices) {
  test::RandomProblems random(43);
  int transposed = 0;
  for (int i = 0; i < 200; ++i) {
    StridedCase made(random, 2, 300);
    transposed += BoxCopy(made.from.layout(), made.to.layout(), made.box, made.element_size).is_transposing() ? 1 : 0;
    check_copy(made, random);
    check_packing(made, random);
    ASSERT_FALSE(testing::Test::HasFailure()) << i;
  }
  EXPECT_GT(transposed, 30);
}

TEST(StridedCopy, of_a_source_that_repeats_its_elements) {
  const Box box{{0, 0}, {3, 4}};
  const std::vector<std::byte> row{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  std::vector<std::byte> to(12);
  BoxCopy({box, {0, 1}}, box, box, 1).run(row.data(), to.data());
  for (std::size_t i = 0; i < to.size(); ++i) EXPECT_EQ(to[i], row[i % 4]);
}

// Both sides in the same order, whichever: as few runs as between packed tiles.
TEST(StridedCopy, merges_what_lies_together_in_any_order) {
  const Box box{{0, 0, 0}, {4, 6, 8}};
  const TileLayout columns(box, packed_strides(box, 4, {2, 1, 0}));
  EXPECT_EQ(BoxCopy(columns, columns, box, 4).run_count(), 1);
  const BoxCopy part(columns, columns, {{0, 0, 1}, {4, 6, 3}}, 4);
  EXPECT_EQ(part.run_count(), 1);
  EXPECT_FALSE(part.is_transposing());
  EXPECT_TRUE(BoxCopy(columns, box, box, 4).is_transposing());
  EXPECT_TRUE(BoxPacking(columns, box, 4, order_of(columns)).is_contiguous());
}

TEST(StridedCopy, of_the_last_place_is_counted_beyond_32_bits) {
  const std::int64_t many = std::int64_t{1} << 33;
  const Box tile{{0, 0}, {3 * many, 4}};
  const BoxCopy copy(tile, Box{{2 * many, 1}, {3 * many, 3}}, Box{{2 * many, 1}, {3 * many, 3}}, 8);
  EXPECT_EQ(copy.run_place(0).from, (2 * many * 4 + 1) * 8);
  EXPECT_EQ(copy.run_place(many - 1).from, ((3 * many - 1) * 4 + 1) * 8);
  EXPECT_EQ(copy.run_place(many - 1).to, (many - 1) * 2 * 8);
}

TEST(BoxCopy, refuses_a_box_outside_of_a_tile) {
  const Box tile{{0}, {4}};
  EXPECT_THROW(BoxCopy(tile, Box{{0}, {3}}, tile, 1), InternalError);
  EXPECT_THROW(BoxCopy(Box{{1}, {4}}, tile, tile, 1), InternalError);
  EXPECT_THROW(BoxCopy(tile, tile, tile, 0), InternalError);
  const BoxCopy copy(tile, tile, tile, 1);
  std::byte bytes[4] = {};
  std::byte others[4] = {};
  EXPECT_THROW(copy.run(bytes, others, {0, 5}), InternalError);
}

TEST(BoxCopy, refuses_tiles_that_do_not_fit_in63_bits) {
  const Box tile{{0}, {INT64_MAX}};
  EXPECT_THROW(BoxCopy(tile, tile, {{0}, {1}}, 2), RuntimeError);
}

// Counts beyond 32 bits, without the memory.
TEST(BoxCopy, counts_beyond32_bits) {
  const Box from{{0, 0}, {std::int64_t{1} << 33, 2}};
  const BoxCopy copy(from, Box{{0, 0}, {std::int64_t{1} << 33, 1}}, Box{{0, 0}, {std::int64_t{1} << 33, 1}}, 8);
  EXPECT_EQ(copy.run_count(), std::int64_t{1} << 33);
  EXPECT_EQ(copy.bytes(), std::int64_t{1} << 36);
}

// Memory that may only be read: writing the bytes that are there would end the test.
TEST(BoxCopy, leaves_a_box_alone_that_lies_where_it_goes) {
  const std::size_t bytes = 4096;
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* tile = static_cast<std::byte*>(memory);
  const Box inside{{1, 2}, {5, 9}};
  const TileLayout whole(Box{{0, 0}, {6, 12}}, {96, 8});
  BoxCopy(whole, whole, inside, 8).run(tile, tile);
  // The inside and the whole of one array.
  BoxCopy(TileLayout(inside, {96, 8}), whole, inside, 8).run(tile + 96 + 16, tile);
  munmap(memory, bytes);
}

TEST(BoxCopy, copies_a_box_that_begins_where_it_goes_and_lies_otherwise) {
  std::vector<std::byte> tile(64);
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = static_cast<std::byte>(i);
  const Box box{{0, 0}, {1, 2}};
  BoxCopy(TileLayout(box, {16, 8}), TileLayout(box, {16, 4}), box, 1).run(tile.data(), tile.data());
  EXPECT_EQ(std::to_integer<int>(tile[4]), 8);
}

}  // namespace
}  // namespace retile
