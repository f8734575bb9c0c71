// Section 7, finding nearly-optimal redistributions: merging, over-partitioning, and which axis to pick.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "retile/collectives/sequence.h"
#include "retile/types/text.h"
#include "tests/paper/checked_sequence.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/low_level.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

// --- ssec:merging.

// 3 · 8 for three alltoalls and 8 for one; another 8 for the permutation where it is needed.
TEST(Section7, ssec_merging_cost_example) {
  const Sequence three = checked_sequence(R"(mesh {a0: 2, a1: 2, a2: 2}
    [1{a0,a1,a2}8, 8] -> alltoall(0 -> 1) -> alltoall(0 -> 1) -> alltoall(0 -> 1) [8, 1{a2,a1,a0}8])");
  const Sequence one = checked_sequence(R"(mesh {a0: 2, a1: 2, a2: 2}
    [1{a0,a1,a2}8, 8] -> alltoall(0 -> 1; a0,a1,a2) [8, 1{a0,a1,a2}8])");
  EXPECT_EQ(cost(three), 3 * 8);
  EXPECT_EQ(cost(one), 8);
  const DeviceAssignment target = plain(one.target());
  EXPECT_EQ(cost(permute_to(lower(plain(three.source()), weaken(three)), target)), 3 * 8 + 8);
  EXPECT_EQ(cost(permute_to(lower(plain(one.source()), weaken(one)), target)), 8);
}

// Neighbours of a kind, with the same dimensions, on axes x and y: one collective on both does the same. One alltoall
// on both may leave the tiles in another order, but no others.
TEST(Section7, ssec_merging_one_collective_does_the_work_of_two) {
  std::int64_t merged = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const DistributedType& start : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for_each_sequence(Sequence(start), 2, single_axis_collectives, [&](const Sequence& pair) {
        if (pair.size() < 2) return;
        const WeakSequence weak = weaken(pair);
        WeakStep joined = weak.steps()[0];
        const WeakStep& second = weak.steps()[1];
        if (joined.kind != second.kind || joined.dimension != second.dimension || joined.to != second.to) return;
        joined.factor *= second.factor;
        const LowLevelSequence one = lower(plain(start), WeakSequence(mesh, weak.source(), {joined}));
        const LowLevelSequence two = lower(plain(start), weak);
        ASSERT_EQ(weaken(one.target().type), weaken(two.target().type));
        ASSERT_LE(cost(one), cost(two));
        const bool exact = joined.kind == CollectiveKind::allgather;
        ASSERT_TRUE(!exact || are_equivalent(one.target(), two.target()));
        ++merged;
      });
    }
  }
  EXPECT_GT(merged, 300);
}

// --- fig:oversharding.

TEST(Section7, fig_oversharding_without_over_partitioning) {
  const Sequence sequence = checked_sequence(R"(mesh {x: 4, y: 2, z: 4}
    [1{y,x}8, 8, 8, 4]
    -> alltoall(0 -> 1) [2{x}8, 4{y}8, 8, 4]
    -> alltoall(0 -> 2) [8, 4{y}8, 2{x}8, 4])");
  EXPECT_EQ(cost(sequence), 256 + 256);
}

TEST(Section7, fig_oversharding_with_over_partitioning) {
  const Sequence sequence = checked_sequence(R"(mesh {x: 4, y: 2, z: 4}
    [1{y,x}8, 8, 8, 4]
    -> dynslice(3; z) [1{y,x}8, 8, 8, 1{z}4]
    -> alltoall(0 -> 1) [2{x}8, 4{y}8, 8, 1{z}4]
    -> alltoall(0 -> 2) [8, 4{y}8, 2{x}8, 1{z}4]
    -> allgather(3)   [8, 4{y}8, 2{x}8, 4])");
  const std::vector<std::int64_t> expected{0, 64, 64, 256};
  for (std::size_t i = 0; i < sequence.size(); ++i) {
    EXPECT_EQ(cost(Sequence(sequence.types()[i], {sequence.steps()[i]})), expected[i]);
  }
  EXPECT_EQ(cost(sequence), 384);
  EXPECT_TRUE(is_normal_form(sequence));
}

// The weak optimum is 320. It needs a permutation, which costs 64 before the last allgather: 384, the figure's cost.
TEST(Section7, fig_oversharding_weak_optimum) {
  const Mesh mesh = parse_mesh("x=4,y=2,z=4");
  const WeakType source{{8, 8, 8, 4}, {1, 8, 8, 4}};
  const Shape target{8, 4, 2, 4};
  std::int64_t cheapest = std::numeric_limits<std::int64_t>::max();
  const std::int64_t count =
      for_each_weak_sequence(WeakSequence(mesh, source), 3, Factors::any, [&](const WeakSequence& sequence) {
        if (sequence.target().local == target) cheapest = std::min(cheapest, cost(sequence));
      });
  EXPECT_GT(count, 4000);
  EXPECT_EQ(cheapest, 320);

  const WeakSequence weak(mesh, source, {weak_slice(2, 4), weak_alltoall(0, 1, 2), weak_gather(0, 4)});
  EXPECT_EQ(cost(weak), 320);
  EXPECT_EQ(weak.target().local, target);
  const DistributedType start = parse_type("[1{y,x}8, 8, 8, 4]", mesh);
  const DistributedType end = parse_type("[8, 4{y}8, 2{x}8, 4]", mesh);
  const DistributedType before_gather = parse_type("[2{z}8, 4{y}8, 2{x}8, 4]", mesh);
  const WeakSequence but_last(mesh, source, {weak_slice(2, 4), weak_alltoall(0, 1, 2)});
  EXPECT_FALSE(are_equivalent(lower(plain(start), weak).target(), plain(end)));
  LowLevelSequence sequence = permute_to(lower(plain(start), but_last), plain(before_gather));
  sequence.steps.push_back(lower(sequence.target(), weak_gather(0, 4)));
  EXPECT_TRUE(are_equivalent(sequence.target(), plain(end)));
  EXPECT_EQ(cost(sequence), 384);
  for (const LowLevelStep& step : sequence.steps) EXPECT_EQ(find_replay_fault(physical_step(step)), "");
}

// --- Optimizations for permutations: [16] to [4{x}16] could be sliced along y and then permuted.

TEST(Section7, slicing_along_the_wrong_axis_costs_a_permutation) {
  const Mesh mesh = parse_mesh("{\"x\": 4, \"y\": 4}");
  const DeviceAssignment start = plain(parse_type("[16]", mesh));
  const DeviceAssignment target = plain(parse_type("[4{\"x\"}16]", mesh));
  const LowLevelSequence right{start, {dynslice(start, 0, {mesh.whole(0)})}};
  const LowLevelSequence wrong{start, {dynslice(start, 0, {mesh.whole(1)})}};
  EXPECT_EQ(cost(permute_to(right, target)), 0);
  EXPECT_EQ(cost(permute_to(wrong, target)), 4);
}

// A permutation before the final allgathers is cheaper than one after them.
TEST(Section7, permutations_are_cheaper_before_allgathers) {
  const Sequence late = checked_sequence(R"(mesh {x: 2, y: 2, z: 2}
    [1{x,y}4, 4] -> allgather(0) [2{y}4, 4] -> allpermute [2{z}4, 4])");
  const Sequence early = checked_sequence(R"(mesh {x: 2, y: 2, z: 2}
    [1{x,y}4, 4] -> allpermute [1{x,z}4, 4] -> allgather(0) [2{z}4, 4])");
  EXPECT_EQ(late.target(), early.target());
  EXPECT_EQ(cost(late), 8 + 8);
  EXPECT_EQ(cost(early), 4 + 8);
}

}  // namespace
}  // namespace retile::test
