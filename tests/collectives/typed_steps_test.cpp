#include "tests/support/typed_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "retile/collectives/sequence.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Sequence sequence_of(const char* text) { return parse_sequence(SourceText{"test", text}); }

TEST(TypedSteps, of_no_collectives_are_none) {
  EXPECT_THAT(test::typed_steps(sequence_of("mesh {a: 2} [2{a}4]")), IsEmpty());
}

TEST(TypedSteps, have_the_factors_of_their_collectives_and_no_lists) {
  const Sequence sequence = sequence_of(R"(mesh {a: 2, b: 3}
    [6, 12]
    -> dynslice(0; a,b)
    -> alltoall(0, 1; a)
    -> allgather(1; a)
    -> allpermute [2{b}6, 12])");
  const std::vector<Step> steps = test::typed_steps(sequence);
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[0].operation, StepOperation(SliceStep{{{0, 6}}}));
  EXPECT_EQ(steps[1].operation, StepOperation(AllToAllStep{{{0, 1, 2}}, {}}));
  EXPECT_EQ(steps[2].operation, StepOperation(GatherStep{{{1, 2}}, {}}));
  EXPECT_EQ(steps[3].operation, StepOperation(PermuteStep{}));
  EXPECT_THAT(steps[0].local_out(), ElementsAre(1, 12));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].after, Placement(sequence.types()[i + 1]));
    ASSERT_NE(steps[i].after.type(), nullptr) << "a type costs no memory per device";
  }
}

// Groups are worked out from boxes; here they are those along the axes of the collective.
TEST(TypedSteps, have_the_groups_of_their_collectives) {
  const Sequence sequence = sequence_of("mesh {a: 2, b: 3} [1{a,b}6, 12] -> alltoall(0, 1; a) -> allgather(1; a)");
  const Movement movement = with_lists({sequence.mesh(), Placement(sequence.source()), test::typed_steps(sequence)});
  const Groups along_a{{0, 3}, {1, 4}, {2, 5}};
  EXPECT_EQ(movement.steps[0].operation, StepOperation(AllToAllStep{{{0, 1, 2}}, along_a}));
  EXPECT_EQ(movement.steps[1].operation, StepOperation(GatherStep{{{1, 2}}, along_a}));
}

TEST(MatchTiles, keeps_tiles_that_are_already_in_place) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto match = [&](const char* before, const char* after) {
    return match_tiles(tile_table(parse_type(before, mesh)), tile_table(parse_type(after, mesh)));
  };
  EXPECT_THAT(match("[2{a}4]", "[2{a}4]"),
              ElementsAre(DevicePair{0, 0}, DevicePair{1, 1}, DevicePair{2, 2}, DevicePair{3, 3}));
  // a puts the first half on devices 0 and 1, b on 0 and 2.
  EXPECT_THAT(match("[2{a}4]", "[2{b}4]"),
              ElementsAre(DevicePair{0, 0}, DevicePair{2, 1}, DevicePair{1, 2}, DevicePair{3, 3}));
  EXPECT_THAT(match("[1{a,b}4]", "[1{b,a}4]"),
              ElementsAre(DevicePair{0, 0}, DevicePair{2, 1}, DevicePair{1, 2}, DevicePair{3, 3}));
}

TEST(MatchTiles, is_a_bijection_that_finds_every_tile) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8)) {
    const std::vector<DistributedType> types = test::all_types(mesh, test::divisible_shape(mesh, 2));
    for (const DistributedType& before : types) {
      for (const DistributedType& after : types) {
        if (before.local_shape() != after.local_shape()) continue;
        const Placement from(before);
        const Placement to(after);
        std::set<Device> sources;
        Device target = 0;
        for (const DevicePair& pair : match_tiles(tile_table(before), tile_table(after))) {
          EXPECT_EQ(pair.target, target++);
          EXPECT_EQ(from.offset(pair.source), to.offset(pair.target));
          EXPECT_TRUE(sources.insert(pair.source).second);
          if (from.offset(pair.target) == to.offset(pair.target)) {
            EXPECT_EQ(pair.source, pair.target);
          }
        }
        EXPECT_EQ(target, mesh.device_count());
        ++covered;
      }
    }
  }
  EXPECT_EQ(covered, 382);
}

void check_random_sequence() {
  const Mesh mesh = *rc::gen::elementOf(test::all_meshes(12));
  const DistributedType source = *test::arbitrary_type(mesh, test::divisible_shape(mesh, *rc::gen::inRange(1, 4)));
  const Sequence sequence = *test::arbitrary_sequence(source, 8);
  const CostModel& model = test::arbitrary_model();
  const Plan plan = test::finish_plan(sequence.source(), sequence.target(), test::typed_steps(sequence), model);
  RC_ASSERT(find_faults(plan) == std::vector<std::string>());
  RC_ASSERT(plan.memory.peak == height(sequence));
  if (&model == &paper_model()) RC_ASSERT(plan.cost.total == cost(sequence));
}

RC_GTEST_PROP(TypedSteps, of_random_sequences_make_right_plans, ()) {
  for (int i = 0; i < 20; ++i) check_random_sequence();
}

}  // namespace
}  // namespace retile
