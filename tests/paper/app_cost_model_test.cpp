// Appendix B, derivation of data transfer cost: the elements that devices send, counted one pair of devices after
// another, against fig:cost-model. The paper's conventions: an allgather sends a device its own tile, an alltoall its
// own piece, and a permutation every tile.
#include <gtest/gtest.h>

#include "retile/collectives/sequence.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/low_level.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

// Shapes whose tiles are not all squares.
std::vector<Shape> oblong_shapes(const Mesh& mesh) {
  return {{mesh.device_count()}, divisible_shape(mesh, 2), {mesh.device_count(), 3, 4}};
}

// Counts every step of the kind over all small types; returns how many there were.
std::int64_t compare_counts(CollectiveKind kind) {
  std::int64_t compared = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const Shape& shape : oblong_shapes(mesh)) {
      const std::vector<DistributedType> types = all_prime_types(mesh, shape);
      for (const DistributedType& before : types) {
        const bool permutes = kind == CollectiveKind::allpermute;
        for (const Collective& step : permutes ? permutations(before, types) : multi_axis_collectives(before)) {
          if (kind_of(step) != kind) continue;
          const std::int64_t transferred = count_transferred(physical_step(before, step));
          const std::int64_t expected = cost(kind, type_after(before, step).local_size());
          EXPECT_EQ(transferred, expected * mesh.device_count()) << to_string(before) << to_string(mesh, step);
          ++compared;
        }
      }
    }
  }
  return compared;
}

TEST(AppCostModel, allpermute) { EXPECT_GT(compare_counts(CollectiveKind::allpermute), 4000); }
TEST(AppCostModel, dynslice) { EXPECT_GT(compare_counts(CollectiveKind::dynslice), 1000); }
TEST(AppCostModel, allgather) { EXPECT_GT(compare_counts(CollectiveKind::allgather), 1000); }
TEST(AppCostModel, alltoall) { EXPECT_GT(compare_counts(CollectiveKind::alltoall), 1000); }

// δ/n groups of n devices, each sending a tile to each: n² tiles per group.
TEST(AppCostModel, allgather_exchanges_n_squared_tiles_in_each_group) {
  const Mesh mesh = parse_mesh("x=2,y=3,z=2");
  const DistributedType before = parse_type("[2{y,x}12, 5]", mesh);
  const PhysicalStep step = physical_step(before, AllGather{0, {mesh.whole(1)}});
  ASSERT_EQ(step.groups.size(), 4U);
  for (const std::vector<Device>& group : step.groups) {
    ASSERT_EQ(group.size(), 3U);
    for (const Device from : group) {
      for (const Device to : group) EXPECT_EQ(elements_between(step, from, to), 10);
    }
  }
  EXPECT_EQ(count_transferred(step), 4 * 9 * 10);
}

// Each device splits its tile into n, keeps one piece and sends the others.
TEST(AppCostModel, alltoall_sends_an_nth_of_a_tile_to_each) {
  const Mesh mesh = parse_mesh("x=2,y=3,z=2");
  const DistributedType before = parse_type("[2{y,x}12, 6]", mesh);
  const PhysicalStep step = physical_step(before, AllToAll{0, 1, {mesh.whole(1), mesh.whole(0)}});
  ASSERT_EQ(step.groups.size(), 2U);
  for (const std::vector<Device>& group : step.groups) {
    ASSERT_EQ(group.size(), 6U);
    for (const Device from : group) {
      for (const Device to : group) EXPECT_EQ(elements_between(step, from, to), 2);
    }
  }
  EXPECT_EQ(count_transferred(step), 12 * 12);
}

// The low-level collectives, whose groups follow device maps, transfer as much.
TEST(AppCostModel, low_level_collectives) {
  std::int64_t compared = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    std::vector<Device> reversed;
    for (Device device = mesh.device_count(); device-- > 0;) reversed.push_back(device);
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for (const WeakStep& weak : weak_steps(mesh, weaken(type), Factors::any)) {
        const LowLevelSequence sequence{{DeviceMap(reversed), type}, {lower({DeviceMap(reversed), type}, weak)}};
        const std::int64_t transferred = count_transferred(physical_step(sequence.steps.front()));
        ASSERT_EQ(transferred, cost(sequence) * mesh.device_count()) << to_string(type);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 500);
}

// The cost of a sequence is the sum of what its steps transfer.
TEST(AppCostModel, sequences) {
  std::int64_t compared = 0;
  for (const Mesh& mesh : all_meshes(6)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      compared += for_each_sequence(Sequence(type), 3, single_axis_collectives, [&](const Sequence& sequence) {
        std::int64_t transferred = 0;
        for (std::size_t i = 0; i < sequence.size(); ++i) {
          transferred += count_transferred(physical_step(sequence.types()[i], sequence.steps()[i]));
        }
        ASSERT_EQ(transferred, cost(sequence) * mesh.device_count()) << to_string(sequence);
      });
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace retile::test
