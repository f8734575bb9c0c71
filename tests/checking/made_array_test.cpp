#include "retile/checking/made_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <set>
#include <string>

#include "retile/base/error.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/error_of.h"
#include "tests/support/whole_arrays.h"

namespace retile {
namespace {

// An array whose elements are their row-major numbers, one byte each.
Tile numbered(const Shape& shape) {
  Tile tile = allocate_tile(box_at(Shape(shape.size(), 0), shape), 1);
  for (std::size_t i = 0; i < tile.bytes.size(); ++i) tile.bytes[i] = static_cast<std::byte>(i);
  return tile;
}

std::vector<int> numbers(const Tile& tile) {
  std::vector<int> values;
  for (const std::byte byte : tile.bytes) values.push_back(std::to_integer<int>(byte));
  return values;
}

TEST(CheckedBytes, is_the_product) {
  EXPECT_EQ(checked_bytes(6, 4), 24);
  EXPECT_EQ(checked_bytes(1, 1), 1);
  EXPECT_EQ(checked_bytes(INT64_MAX, 1), INT64_MAX);
  EXPECT_EQ(checked_bytes(INT64_MAX / 16, 16), INT64_MAX - 15);
}

TEST(CheckedBytes, refuses_what_does_not_fit) {
  EXPECT_EQ(test::error_of([] { return checked_bytes(INT64_MAX, 2); }),
            "9223372036854775807 elements of 2 bytes do not fit in 63 bits");
  EXPECT_EQ(test::error_of([] { return checked_bytes(INT64_MAX / 16 + 1, 16); }),
            "576460752303423488 elements of 16 bytes do not fit in 63 bits");
}

TEST(AllocateTile, has_room_for_its_box_and_is_zero) {
  const Tile tile = allocate_tile({{2, 0}, {4, 3}}, 4);
  EXPECT_EQ(tile.box, (Box{{2, 0}, {4, 3}}));
  EXPECT_EQ(std::vector<std::byte>(tile.bytes.begin(), tile.bytes.end()), std::vector<std::byte>(24));
  EXPECT_EQ(allocate_tile({}, 8).bytes.size(), 8U) << "an array of rank 0 has one element";
}

TEST(AllocateTile, refuses_what_does_not_fit_in63_bits) {
  EXPECT_EQ(test::error_of([] {
              return allocate_tile({{0}, {INT64_MAX}}, 8);
            }),
            "9223372036854775807 elements of 8 bytes do not fit in 63 bits");
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool new_can_fail = false;  // the sanitizers end the program instead
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool new_can_fail = false;
#else
constexpr bool new_can_fail = true;
#endif
#else
constexpr bool new_can_fail = true;
#endif

TEST(AllocateTile, says_where_there_is_no_memory) {
  if (!new_can_fail) GTEST_SKIP() << "an allocation that fails ends the program under this sanitizer";
  EXPECT_EQ(test::error_of([] {
              return allocate_tile({{0}, {INT64_MAX / 8}}, 8);
            }),
            "no memory for a tile of 9223372036854775800 bytes");
}

TEST(CopyBox, copies_rows_between_tiles_of_other_boxes) {
  const Tile array = numbered({4, 6});
  Tile tile = allocate_tile({{1, 2}, {4, 6}}, 1);
  copy_box(array, tile, {{2, 3}, {4, 5}}, 1);
  EXPECT_THAT(numbers(tile), ::testing::ElementsAre(0, 0, 0, 0, 0, 15, 16, 0, 0, 21, 22, 0));
  Tile back = allocate_tile({{0, 0}, {4, 6}}, 1);
  copy_box(tile, back, {{2, 4}, {4, 5}}, 1);
  EXPECT_EQ(back.bytes[16], std::byte{16});
  EXPECT_EQ(back.bytes[22], std::byte{22});
  EXPECT_EQ(std::count(back.bytes.begin(), back.bytes.end(), std::byte{0}), 22);
}

TEST(CopyBox, copies_the_one_element_of_rank_zero) {
  Tile from = allocate_tile({}, 3);
  for (std::size_t i = 0; i < 3; ++i) from.bytes[i] = static_cast<std::byte>(i + 1);
  Tile to = allocate_tile({}, 3);
  copy_box(from, to, {}, 3);
  EXPECT_EQ(to.bytes, from.bytes);
}

TEST(MakeArray, is_the_same_for_the_same_seed) {
  const Tile array = make_array({5, 7}, 4, 42);
  EXPECT_EQ(array.box, (Box{{0, 0}, {5, 7}}));
  EXPECT_EQ(array.bytes.size(), 5U * 7U * 4U);
  EXPECT_EQ(make_array({5, 7}, 4, 42).bytes, array.bytes);
  EXPECT_NE(make_array({5, 7}, 4, 43).bytes, array.bytes);
  EXPECT_EQ(make_array({35}, 4, 42).bytes, array.bytes) << "bytes are made from the row-major number";
}

// Data that repeated itself would hide tiles in the wrong place.
TEST(MakeArray, has_elements_that_differ) {
  for (const std::int64_t element_size : {3, 4, 8, 16}) {
    const Tile array = make_array({4096}, element_size, 0);
    std::set<std::string> distinct;
    for (auto at = array.bytes.begin(); at != array.bytes.end(); at += element_size) {
      std::string element;
      std::transform(at, at + element_size, std::back_inserter(element),
                     [](std::byte byte) { return std::to_integer<char>(byte); });
      distinct.insert(element);
    }
    EXPECT_GE(distinct.size(), 4090U) << element_size;
  }
}

TEST(MakeArray, fills_all_bytes_of_wide_elements) {
  const Tile array = make_array({64}, 16, 0);
  for (std::size_t byte = 0; byte < 16; ++byte) {
    std::set<std::byte> values;
    for (std::size_t i = byte; i < array.bytes.size(); i += 16) values.insert(array.bytes[i]);
    EXPECT_GT(values.size(), 32U) << byte;
  }
}

TEST(MakeTile, is_a_slice_of_the_array) {
  int covered = 0;
  for (const std::int64_t element_size : {1, 3, 8, 12}) {
    for (const Mesh& mesh : test::all_meshes(6)) {
      const Shape shape = test::divisible_shape(mesh, 2);
      const MadeArray made{shape, element_size, 9};
      const Tile array = make_array(shape, element_size, 9);
      for (const DistributedType& type : test::all_types(mesh, shape)) {
        const Tiles slices = slice_array(array, Placement(type), element_size);
        for (Device device = 0; device < mesh.device_count(); ++device) {
          const Tile& slice = slices[static_cast<std::size_t>(device)];
          const Tile tile = make_tile(made, slice.box);
          EXPECT_EQ(tile.bytes, slice.bytes);
          EXPECT_EQ(find_difference(made, tile, device, slice.box), std::nullopt);
          ++covered;
        }
      }
    }
  }
  EXPECT_EQ(covered, 956);
}

TEST(MakeTile, finds_every_flipped_byte) {
  const MadeArray made{{4, 9000}, 2, 3};  // rows longer than those that are compared at once
  const Box box{{1, 100}, {3, 8900}};
  Tile tile = make_tile(made, box);
  for (std::size_t byte = 0; byte < tile.bytes.size(); byte += 601) {
    tile.bytes[byte] ^= std::byte{0x40};
    const auto element = static_cast<std::int64_t>(byte / 2);
    const Shape place{1 + element / 8800, 100 + element % 8800};
    EXPECT_THAT(find_difference(made, tile, 5, box).value_or(""),
                ::testing::StartsWith("device 5, element " + to_string(place) + ": byte " + std::to_string(byte % 2)));
    tile.bytes[byte] ^= std::byte{0x40};
  }
  EXPECT_EQ(find_difference(made, tile, 5, box), std::nullopt);
  EXPECT_EQ(find_difference(made, tile, 5, {{1, 100}, {3, 8901}}),
            "device 5 holds [1:3, 100:8900] instead of [1:3, 100:8901]");
  tile.bytes = Buffer(7);
  EXPECT_EQ(find_difference(made, tile, 5, box), "device 5 holds 7 bytes instead of 35200");
}

TEST(SliceArray, gives_each_device_its_box) {
  const Tile array = numbered({4, 4});
  const Placement placement(parse_type("[2{b}4, 2{a}4]", parse_mesh("a=2,b=2")));
  const Tiles tiles = slice_array(array, placement, 1);
  ASSERT_EQ(tiles.size(), 4U);
  EXPECT_THAT(numbers(tiles[0]), ::testing::ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(numbers(tiles[1]), ::testing::ElementsAre(8, 9, 12, 13));
  EXPECT_THAT(numbers(tiles[2]), ::testing::ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(numbers(tiles[3]), ::testing::ElementsAre(10, 11, 14, 15));
  EXPECT_EQ(tiles[1].box, (Box{{2, 0}, {4, 2}}));
}

TEST(SliceArray, of_every_type_has_no_difference) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8)) {
    for (int rank = 0; rank <= 3; ++rank) {
      const Shape shape = test::divisible_shape(mesh, rank);
      const Tile array = make_array(shape, 3, 7);
      for (const DistributedType& type : test::all_types(mesh, shape)) {
        EXPECT_EQ(find_difference(array, slice_array(array, Placement(type), 3), Placement(type), 3), std::nullopt);
        ++covered;
      }
    }
  }
  EXPECT_EQ(covered, 432);
}

TEST(FindDifference, names_the_device_element_and_byte) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const Placement placement(parse_type("[2{b}4, 2{a}4]", mesh));
  const Tile array = numbered({4, 4});
  Tiles tiles = slice_array(array, placement, 1);
  tiles[3].bytes[1] = std::byte{0xFF};
  EXPECT_EQ(find_difference(array, tiles, placement, 1), "device 3, element [2, 3]: byte 0 is 0xff instead of 0x0b");
  tiles[1].bytes[2] = std::byte{0};
  EXPECT_EQ(find_difference(array, tiles, placement, 1), "device 1, element [3, 0]: byte 0 is 0x00 instead of 0x0c");
}

TEST(FindDifference, finds_every_flipped_byte) {
  const Mesh mesh = parse_mesh("a=2,b=3");
  const Placement placement(parse_type("[1{a}2, 2{b}6, 2]", mesh));
  const Tile array = make_array({2, 6, 2}, 3, 1);
  int covered = 0;
  for (std::size_t device = 0; device < 6; ++device) {
    for (std::size_t byte = 0; byte < 12; ++byte) {
      Tiles tiles = slice_array(array, placement, 3);
      const auto should = std::to_integer<unsigned>(tiles[device].bytes[byte]);
      tiles[device].bytes[byte] ^= std::byte{0x10};
      const Shape corner = placement.offset(static_cast<Device>(device));
      const auto element = static_cast<std::int64_t>(byte / 3);
      const Shape place{corner[0], corner[1] + element / 2, element % 2};
      char expected[100];
      std::snprintf(expected, sizeof expected, "device %zu, element %s: byte %zu is %#04x instead of %#04x", device,
                    to_string(place).c_str(), byte % 3, should ^ 0x10U, should);
      EXPECT_EQ(find_difference(array, tiles, placement, 3), expected);
      ++covered;
    }
  }
  EXPECT_EQ(covered, 72);
}

TEST(FindDifference, of_rank_zero) {
  const Placement placement(parse_type("[]", parse_mesh("a=2")));
  Tile array = allocate_tile({}, 2);
  for (std::size_t i = 0; i < 2; ++i) array.bytes[i] = static_cast<std::byte>(i + 1);
  Tiles tiles = slice_array(array, placement, 2);
  EXPECT_EQ(find_difference(array, tiles, placement, 2), std::nullopt);
  tiles[1].bytes[1] = std::byte{3};
  EXPECT_EQ(find_difference(array, tiles, placement, 2), "device 1, element []: byte 1 is 0x03 instead of 0x02");
}

TEST(FindDifference, sees_tiles_of_other_boxes_and_sizes) {
  const Mesh mesh = parse_mesh("a=2");
  const Placement placement(parse_type("[2{a}4]", mesh));
  const Tile array = numbered({4});
  const Tiles right = slice_array(array, placement, 1);

  Tiles tiles = right;
  std::swap(tiles[0], tiles[1]);
  EXPECT_EQ(find_difference(array, tiles, placement, 1), "device 0 holds [2:4] instead of [0:2]");
  tiles = right;
  tiles[1].bytes = Buffer(tiles[1].bytes.size() - 1);
  EXPECT_EQ(find_difference(array, tiles, placement, 1), "device 1 holds 1 bytes instead of 2");
  tiles.pop_back();
  EXPECT_EQ(find_difference(array, tiles, placement, 1), "there are 1 tiles for 2 devices");
}

}  // namespace
}  // namespace retile
