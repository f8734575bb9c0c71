// Arguments and results: the same arrays whatever the layout and however many processes share them.
#include "retile/runtime/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/checking/made_array.h"
#include "retile/engines/reference/reference.h"
#include "retile/runtime/arguments.h"
#include "retile/runtime/npy.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/split_engine.h"
#include "tests/support/whole_arrays.h"

namespace retile::runtime {
namespace {

using language::ArrayType;

ArrayType array_type(const DistributedType& type, ElementType element) { return {element, Placement(type), {}}; }

ArrayType array_type(const Mesh& mesh, const char* text, ElementType element = ElementType::f32) {
  return language::array_type_of(element, *parse_layout(text, mesh).cuts());
}

TileBuffers made_up_tiles(const ArrayType& type, const std::vector<Device>& devices, std::uint64_t seed) {
  return read_tiles(type, devices, made_up_array(type.element, type.placement.global_shape(), seed));
}

template <typename Number>
std::vector<Number> made_up_numbers(const Shape& shape, ElementType element, std::uint64_t seed) {
  const Box whole{Shape(shape.size(), 0), shape};
  std::vector<Number> numbers(static_cast<std::size_t>(volume(whole)));
  made_up_array(element, shape, seed)(whole, reinterpret_cast<std::byte*>(numbers.data()));
  return numbers;
}

// --- Made-up arrays.

TEST(MadeUpArrays, floats_are_multiples_of_a_fraction_from_minus_one_to_below_one) {
  std::set<float> seen;
  for (const float number : made_up_numbers<float>({100, 100}, ElementType::f32, 1)) {
    EXPECT_GE(number, -1);
    EXPECT_LT(number, 1);
    EXPECT_EQ(number * 128, std::nearbyint(number * 128));
    seen.insert(number);
  }
  EXPECT_EQ(seen.size(), 256U);
}

TEST(MadeUpArrays, doubles_are_the_same_numbers_as_floats) {
  const std::vector<float> floats = made_up_numbers<float>({50}, ElementType::f32, 3);
  const std::vector<double> doubles = made_up_numbers<double>({50}, ElementType::f64, 3);
  for (std::size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(double{floats[i]}, doubles[i]);
}

TEST(MadeUpArrays, integers_go_from_minus100_to99) {
  std::set<std::int32_t> seen;
  for (const std::int32_t number : made_up_numbers<std::int32_t>({100, 100}, ElementType::i32, 1)) seen.insert(number);
  EXPECT_EQ(seen.size(), 200U);
  EXPECT_EQ(*seen.begin(), -100);
  EXPECT_EQ(*seen.rbegin(), 99);
}

TEST(MadeUpArrays, other_seeds_give_other_numbers) {
  EXPECT_NE(made_up_numbers<float>({50}, ElementType::f32, 0), made_up_numbers<float>({50}, ElementType::f32, 1));
}

TEST(MadeUpArrays, tiles_are_slices_of_the_global_array_in_every_layout) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const Shape shape{4, 8};
  const std::unique_ptr<Engine> engine = make_reference_engine();
  const std::vector<double> numbers = made_up_numbers<double>(shape, ElementType::f64, 7);
  int covered = 0;
  for (const DistributedType& distributed : test::all_types(mesh, shape)) {
    const ArrayType type = array_type(distributed, ElementType::f64);
    const TileBuffers tiles = made_up_tiles(type, engine->devices(4), 7);
    Tile array{{{0, 0}, shape}, Buffer(numbers.size() * sizeof(double))};
    std::memcpy(array.bytes.data(), numbers.data(), array.bytes.size());
    const Tiles expected = slice_array(array, type.placement, 8);
    for (std::size_t device = 0; device < 4; ++device) EXPECT_TRUE(tiles[device] == expected[device].bytes);
    ++covered;
  }
  EXPECT_GT(covered, 10);
}

// --- Checksums and first elements.

TEST(Checksum, is_the_documented_sum) {
  const Mesh mesh = parse_mesh("a=2");
  const ArrayType type = array_type(mesh, "[2{a}4]", ElementType::i32);
  const auto engine = make_reference_engine();
  const std::vector<std::int32_t> numbers{5, -1, 0, 1 << 30};
  TileBuffers tiles = made_up_tiles(type, engine->devices(2), 0);
  std::memcpy(tiles[0].data(), numbers.data(), 8);
  std::memcpy(tiles[1].data(), numbers.data() + 2, 8);
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 4; ++i) expected += mix_bits(mix_bits(i) ^ static_cast<std::uint32_t>(numbers[i]));
  EXPECT_EQ(checksum(mesh, type, tiles, *engine), expected);
}

TEST(Checksum, sees_every_bit_and_every_place) {
  const Mesh mesh = parse_mesh("a=1");
  const ArrayType type = array_type(mesh, "[4]", ElementType::f64);
  const auto engine = make_reference_engine();
  TileBuffers tiles = made_up_tiles(type, {0}, 0);
  const std::uint64_t before = checksum(mesh, type, tiles, *engine);
  for (std::size_t i = 0; i < tiles[0].size(); ++i) {
    tiles[0][i] ^= std::byte{1};
    EXPECT_NE(checksum(mesh, type, tiles, *engine), before) << i;
    tiles[0][i] ^= std::byte{1};
  }
  std::swap_ranges(tiles[0].begin(), tiles[0].begin() + 8, tiles[0].begin() + 8);
  EXPECT_NE(checksum(mesh, type, tiles, *engine), before);
}

TEST(Checksum, depends_neither_on_the_layout_nor_on_the_number_of_processes) {
  const Mesh mesh = parse_mesh("a=2,b=3");
  std::set<std::uint64_t> sums;
  std::set<std::vector<std::string>> elements;
  for (const char* text : {"[4, 6]", "[2{a}4, 6]", "[4, 1{b,a}6]", "[4, 1{a,b}6]", "[2{a}4, 2{b}6]", "[1{a,b}4, 6]",
                           "[2{b}4, 6] balanced", "[1{b,a}4, 6] nested", "[2*1{a}2, 2*1{b}3]"}) {
    for (const int processes : {1, 2, 3, 6}) {
      test::run_split(processes, [&](int process, Engine& engine) {
        const ArrayType type = array_type(mesh, text);
        const TileBuffers tiles = made_up_tiles(type, engine.devices(6), 5);
        const std::uint64_t sum = checksum(mesh, type, tiles, engine);
        const std::vector<std::string> first = first_elements(mesh, type, tiles, engine, 8);
        EXPECT_EQ(engine.processes().share(sum), sum);
        if (process != 0) return;
        sums.insert(sum);
        elements.insert(first);
      });
    }
  }
  EXPECT_EQ(sums.size(), 1U);
  EXPECT_EQ(elements.size(), 1U);
  EXPECT_EQ(elements.begin()->size(), 8U);
}

TEST(FirstElements, are_those_that_there_are) {
  const Mesh mesh = parse_mesh("a=2");
  const auto engine = make_reference_engine();
  const ArrayType scalar = array_type(mesh, "[]");
  EXPECT_EQ(first_elements(mesh, scalar, made_up_tiles(scalar, {0, 1}, 0), *engine, 8).size(), 1U);
  const ArrayType type = array_type(mesh, "[2{a}4]", ElementType::i32);
  TileBuffers tiles = made_up_tiles(type, {0, 1}, 0);
  const std::int32_t numbers[] = {1, -2, 3, 4};
  std::memcpy(tiles[0].data(), numbers, 8);
  std::memcpy(tiles[1].data(), numbers + 2, 8);
  EXPECT_THAT(first_elements(mesh, type, tiles, *engine, 3), ::testing::ElementsAre("1", "-2", "3"));
}

// --- Files.

class ResultFile : public ::testing::Test {
 protected:
  ResultFile()
      : path_((std::filesystem::temp_directory_path() / ("retile_result_" + std::to_string(::getpid()) + ".npy"))
                  .string()) {}
  ~ResultFile() override { std::filesystem::remove(path_); }

  std::string path_;
};

TEST_F(ResultFile, is_the_same_for_every_layout_and_number_of_processes) {
  const Mesh mesh = parse_mesh("a=2,b=3");
  std::set<std::string> files;
  for (const char* text :
       {"[4, 6]", "[2{a}4, 6]", "[4, 1{b,a}6]", "[2{a}4, 2{b}6]", "[2{b}4, 6]", "[1{a,b}4, 6]", "[2*1{a}2, 2*1{b}3]"}) {
    for (const int processes : {1, 4}) {
      test::run_split(processes, [&](int, Engine& engine) {
        const ArrayType type = array_type(mesh, text);
        write_npy(path_, mesh, type, made_up_tiles(type, engine.devices(6), 5), engine);
      });
      std::ostringstream bytes;
      bytes << std::ifstream(path_).rdbuf();
      files.insert(bytes.str());
    }
  }
  ASSERT_EQ(files.size(), 1U);
  const NpyReader reader(path_);
  std::vector<float> numbers(24);
  reader.read_box({{0, 0}, {4, 6}}, reinterpret_cast<std::byte*>(numbers.data()));
  EXPECT_EQ(numbers, made_up_numbers<float>({4, 6}, ElementType::f32, 5));
}

TEST(ResultFiles, all_processes_hear_that_one_cannot_write) {
  const Mesh mesh = parse_mesh("a=2");
  const ArrayType type = array_type(mesh, "[2{a}4]");
  int failures = 0;
  std::mutex mutex;
  test::run_split(2, [&](int, Engine& engine) {
    try {
      write_npy("no/such/folder.npy", mesh, type, made_up_tiles(type, engine.devices(2), 0), engine);
    } catch (const RuntimeError& error) {
      EXPECT_STREQ(error.what(), "cannot write 'no/such/folder.npy': No such file or directory");
      const std::lock_guard lock(mutex);
      ++failures;
    }
  });
  EXPECT_EQ(failures, 2);
}

}  // namespace
}  // namespace retile::runtime
