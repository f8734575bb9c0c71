// Section 3, the challenge: sequences of collectives and the decomposition into factors.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>

#include "retile/collectives/sequence.h"
#include "retile/types/text.h"
#include "tests/paper/checked_sequence.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/low_level.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

// Two ways to the same end.
void expect_same_redistribution(const Sequence& left, const Sequence& right) {
  EXPECT_EQ(left.source(), right.source());
  EXPECT_EQ(left.target(), right.target());
}

// --- fig:collective-sequences, row by row.

TEST(Section3, fig_collective_sequences_row_1) {
  const Sequence left = checked_sequence(R"(mesh {"x": 4, "y": 4}
    [32{x,y}512, 128]
    -> allpermute     [32{y,x}512, 128]
    -> alltoall(0 -> 1) [128{x}512, 32{y}128])");
  const Sequence right = checked_sequence(R"(mesh {"x": 4, "y": 4}
    [32{x,y}512, 128]
    -> alltoall(0 -> 1) [128{y}512, 32{x}128]
    -> allpermute     [128{x}512, 32{y}128])");
  expect_same_redistribution(left, right);
  EXPECT_EQ(cost(left), 2 * 4096);
  EXPECT_EQ(cost(right), 2 * 4096);
}

TEST(Section3, fig_collective_sequences_row_2) {
  const Sequence left = checked_sequence(R"(mesh {"x": 4, "y": 4}
    [32{x}128, 512, 32{y}128]
    -> alltoall(0 -> 1) [128, 128{x}512, 32{y}128]
    -> alltoall(2 -> 1) [128, 32{y,x}512, 128])");
  const Sequence right = checked_sequence(R"(mesh {"x": 4, "y": 4}
    [32{x}128, 512, 32{y}128]
    -> alltoall(2 -> 1) [32{x}128, 128{y}512, 128]
    -> alltoall(0 -> 1) [128, 32{x,y}512, 128]
    -> allpermute     [128, 32{y,x}512, 128])");
  expect_same_redistribution(left, right);
  EXPECT_EQ(cost(left), 2 * 32 * 512 * 32);
  EXPECT_EQ(cost(right), 3 * 32 * 512 * 32);
}

TEST(Section3, fig_collective_sequences_row_3) {
  const Sequence left = checked_sequence(R"(mesh {"x": 4, "y": 4}
    [32{x}128, 512, 32{y}128]
    -> allgather(0)   [128, 512, 32{y}128]
    -> alltoall(2 -> 1) [128, 128{y}512, 128])");
  const Sequence right = checked_sequence(R"(mesh {"x": 4, "y": 4}
    [32{x}128, 512, 32{y}128]
    -> alltoall(2 -> 1) [32{x}128, 128{y}512, 128]
    -> allgather(0)   [128, 128{y}512, 128])");
  expect_same_redistribution(left, right);
  EXPECT_FALSE(is_normal_form(left));
  EXPECT_TRUE(is_normal_form(right));
  EXPECT_EQ(cost(left), 2 * 128 * 512 * 32);
  EXPECT_EQ(cost(right), 32 * 512 * 32 + 128 * 512 * 32);
}

// --- example:factor-decomposition.

// The smallest height of any sequence of collectives on whole axes, by flooding from below.
std::int64_t least_height(const DistributedType& source, const DistributedType& target) {
  const std::vector<DistributedType> types = all_types(source.mesh(), source.global_shape());
  std::map<std::string, std::int64_t> best{{to_string(source), source.local_size()}};
  std::deque<DistributedType> open{source};
  while (!open.empty()) {
    const DistributedType type = open.front();
    open.pop_front();
    for (const DistributedType& next : types) {
      std::vector<Collective> steps{AllPermute{next}};
      for (int axis = 0; axis < type.mesh().axis_count(); ++axis) {
        const std::vector<AxisPart> whole{type.mesh().whole(axis)};
        for (int i = 0; i < type.rank(); ++i) {
          steps.insert(steps.end(), {DynSlice{i, whole}, AllGather{i, whole}, AllToAll{i, 1 - i, whole}});
        }
      }
      const bool reachable = std::any_of(steps.begin(), steps.end(), [&](const Collective& step) {
        return !find_fault(type, step) && type_after(type, step) == next;
      });
      const std::int64_t height = std::max(best.at(to_string(type)), next.local_size());
      const auto known = best.find(to_string(next));
      if (!reachable || (known != best.end() && known->second <= height)) continue;
      best[to_string(next)] = height;
      open.push_back(next);
    }
  }
  return best.at(to_string(target));
}

// Whole axes allow no step that keeps the local size of 6. They need not replicate everything, as the text has it: 24
// elements per device are enough (allgather(0), alltoall(1 -> 0), dynslice(1; x)).
TEST(Section3, example_factor_decomposition_whole_axes_need_more_memory) {
  const Mesh mesh = parse_mesh("x=4,y=6");
  const DistributedType source = parse_type("[3{x}12, 2{y}12]", mesh);
  const DistributedType target = parse_type("[2{y}12, 3{x}12]", mesh);
  EXPECT_TRUE(find_fault(source, AllToAll{0, 1, {mesh.whole(0)}}));
  EXPECT_TRUE(find_fault(source, AllToAll{1, 0, {mesh.whole(1)}}));
  EXPECT_TRUE(find_fault(source, AllPermute{target}));
  EXPECT_EQ(least_height(source, target), 24);
}

constexpr const char* split_mesh = R"(mesh {"x1": 2, "x2": 2, "y1": 3, "y2": 2}
    [3{x1,x2}12, 2{y1,y2}12]
    -> alltoall(1 -> 0)  [1{y1,x1,x2}12, 6{y2}12]
    -> allpermute      [1{x1,y1,x2}12, 6{y2}12]
    -> alltoall(0 -> 1)  [2{y1,x2}12, 3{x1,y2}12]
    -> allpermute      [2{y1,y2}12, 3{x1,x2}12])";

TEST(Section3, example_factor_decomposition_on_the_split_mesh) {
  const Sequence sequence = checked_sequence(split_mesh);
  EXPECT_EQ(height(sequence), 6);
  EXPECT_TRUE(is_normal_form(sequence));
  EXPECT_EQ(cost(sequence), 4 * 6);
}

// The paper labels the second alltoall (1, 0) like the first. It moves x1 the other way: from dimension 0 to 1.
TEST(Section3, example_factor_decomposition_the_printed_label_does_not_apply) {
  const Sequence sequence = sequence_of(split_mesh);
  const Mesh& mesh = sequence.mesh();
  const DistributedType& before = sequence.types()[2];
  const auto fault = find_fault(before, AllToAll{1, 0, {mesh.whole(3)}});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->message, "the local size 1 of dimension 0 does not divide by 2");
}

// The example on the mesh as declared, with parts of axes: primes ascend from major to minor, so that y = 6 is y:(1)2
// then y:(2)3, and y2, y1 of the text are these two.
TEST(Section3, example_factor_decomposition_with_parts_of_axes) {
  const Sequence sequence = checked_sequence(R"(mesh {"x": 4, "y": 6}
    [3{x}12, 2{y}12]
    -> alltoall(1 -> 0; y:(2)3)  [1{y:(2)3,x}12, 6{y:(1)2}12]
    -> allpermute              [1{x:(2)2,y:(2)3,x:(1)2}12, 6{y:(1)2}12]
    -> alltoall(0 -> 1; x:(2)2)  [2{y:(2)3,x:(1)2}12, 3{x:(2)2,y:(1)2}12]
    -> allpermute              [2{y}12, 3{x}12])");
  EXPECT_EQ(height(sequence), 6);
  EXPECT_EQ(cost(sequence), 4 * 6);
}

// Principle 2: without the permutation in between, when the alltoall may take its axis from anywhere.
TEST(Section3, principle_2_elides_the_permutation_in_between) {
  const Sequence sequence = sequence_of(split_mesh);
  const Mesh& mesh = sequence.mesh();
  const auto axis = [&](const char* name) { return mesh.whole(*mesh.find_axis(name)); };
  const DeviceAssignment start{DeviceMap::identity(24), sequence.source()};
  LowLevelSequence low_level{start, {}};
  low_level.steps.push_back(alltoall(start, {axis("y1")}, 0));
  low_level.steps.push_back(alltoall(low_level.target(), {axis("x1")}, 1));
  EXPECT_EQ(low_level.target().type, sequence.types()[3]);
  low_level = permute_to(low_level, {DeviceMap::identity(24), sequence.target()});
  for (const LowLevelStep& step : low_level.steps) EXPECT_EQ(find_replay_fault(physical_step(step)), "");
  EXPECT_TRUE(same_boxes(placement_of(low_level.target()), Placement(sequence.target())));
  EXPECT_LE(cost(low_level), 3 * 6);
}

}  // namespace
}  // namespace retile::test
