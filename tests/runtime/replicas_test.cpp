#include "retile/runtime/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>

#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/runtime/arguments.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/split_engine.h"

namespace retile::runtime {
namespace {

using language::ArrayType;

TileBuffers made_up_tiles(const ArrayType& type, const std::vector<Device>& devices) {
  return read_tiles(type, devices, made_up_array(type.element, type.placement.global_shape(), 1));
}

std::string disagreement_of(Engine& engine, const ArrayType& type, const Mesh& mesh, const TileBuffers& tiles) {
  const std::optional<Disagreement> found = ReplicaCheck(mesh, type, engine).run(tiles);
  return found ? found->text : "none";
}

TEST(Replicas, of_slices_agree) {
  const auto engine = make_reference_engine();
  for (const Mesh& mesh : test::all_meshes(8)) {
    const Shape shape = test::useful_shapes(mesh, 2).front();
    for (const DistributedType& type : test::all_types(mesh, shape)) {
      const ArrayType array{ElementType::f32, Placement(type), {}};
      const TileBuffers tiles = made_up_tiles(array, engine->devices(mesh.device_count()));
      EXPECT_EQ(disagreement_of(*engine, array, mesh, tiles), "none") << to_string(type);
    }
  }
}

// Whichever replica is changed, on whichever engine, it is found.
TEST(Replicas, every_change_is_found_exactly_where_there_are_replicas) {
  std::vector<std::unique_ptr<Engine>> engines;
  engines.push_back(make_reference_engine());
  engines.push_back(make_threads_engine());
  int found = 0;
  for (const auto& engine : engines) {
    for (const Mesh& mesh : test::all_meshes(6)) {
      const Shape shape = test::useful_shapes(mesh, 1).front();
      for (const DistributedType& type : test::all_types(mesh, shape)) {
        const ArrayType array{ElementType::i32, Placement(type), {}};
        const bool replicated = type.local_size() * mesh.device_count() > type.global_size();
        TileBuffers tiles = made_up_tiles(array, engine->devices(mesh.device_count()));
        for (Buffer& tile : tiles) {
          tile[tile.size() - 1] ^= std::byte{0x80};
          EXPECT_EQ(disagreement_of(*engine, array, mesh, tiles) != "none", replicated) << to_string(type);
          tile[tile.size() - 1] ^= std::byte{0x80};
          found += replicated ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(found, 50);
}

TEST(Replicas, devices_that_are_summed_over_may_differ) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto engine = make_reference_engine();
  ArrayType type{ElementType::f32, Placement(parse_type("[3]", mesh)), {mesh.whole(0)}};
  TileBuffers tiles = made_up_tiles(type, engine->devices(4));
  for (const std::size_t device : {2U, 3U}) std::memset(tiles[device].data(), 0, tiles[device].size());  // a = 1
  EXPECT_EQ(disagreement_of(*engine, type, mesh, tiles), "none");
  type.partial = {mesh.whole(1)};
  EXPECT_NE(disagreement_of(*engine, type, mesh, tiles), "none");
}

TEST(Replicas, the_first_difference_is_named_by_its_global_index_and_both_values) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto engine = make_reference_engine();
  const ArrayType type{ElementType::f32, Placement(parse_type("[4, 3{a}6]", mesh)), {}};
  TileBuffers tiles = made_up_tiles(type, engine->devices(4));
  const float mine = 2.5F;
  const float other = -0.5F;
  const std::size_t place = (1 * 3 + 2) * sizeof(float);
  std::memcpy(tiles[2].data() + place, &mine, sizeof mine);  // devices 2 and 3 hold columns 3 to 5
  std::memcpy(tiles[3].data() + place, &other, sizeof other);
  EXPECT_EQ(disagreement_of(*engine, type, mesh, tiles), "element [1, 5] is 2.5 on device 2 and -0.5 on device 3");
}

TEST(Replicas, values_of_one_text_are_told_apart_by_their_bits) {
  const Mesh mesh = parse_mesh("a=2");
  const auto engine = make_reference_engine();
  const ArrayType type{ElementType::f32, Placement(parse_type("[]", mesh)), {}};
  TileBuffers tiles = made_up_tiles(type, engine->devices(2));
  const std::uint32_t nans[] = {0x7FC00000, 0x7FC00001};
  for (std::size_t i = 0; i < 2; ++i) std::memcpy(tiles[i].data(), &nans[i], 4);
  EXPECT_EQ(disagreement_of(*engine, type, mesh, tiles),
            "element [] is nan (0x7fc00000) on device 0 and nan (0x7fc00001) on device 1");
}

TEST(Replicas, large_tiles_are_compared_to_their_ends) {
  const Mesh mesh = parse_mesh("a=2");
  const auto engine = make_threads_engine();
  const ArrayType type{ElementType::i32, Placement(parse_type("[40000]", mesh)), {}};
  TileBuffers tiles = made_up_tiles(type, engine->devices(2));
  EXPECT_EQ(disagreement_of(*engine, type, mesh, tiles), "none");
  for (const std::size_t element : {0U, 16383U, 16384U, 32768U, 39999U}) {
    tiles[1][element * 4] ^= std::byte{1};
    EXPECT_THAT(disagreement_of(*engine, type, mesh, tiles),
                ::testing::StartsWith("element [" + std::to_string(element) + "] is "));
    tiles[1][element * 4] ^= std::byte{1};
  }
}

TEST(Replicas, in_other_processes_are_compared_too) {
  const Mesh mesh = parse_mesh("a=4");
  const ArrayType type{ElementType::i32, Placement(parse_type("[5]", mesh)), {}};
  for (const int processes : {2, 4}) {
    int found = 0;
    std::mutex mutex;
    test::run_split(processes, [&](int process, Engine& engine) {
      TileBuffers tiles = made_up_tiles(type, engine.devices(4));
      if (process == processes - 1) tiles.back()[0] ^= std::byte{1};
      ReplicaCheck check(mesh, type, engine);
      const bool mine = check.run(tiles).has_value();
      const std::lock_guard lock(mutex);
      found += mine ? 1 : 0;
    });
    EXPECT_EQ(found, 2) << processes;  // the changed one, and the one that gets it
  }
}

}  // namespace
}  // namespace retile::runtime
