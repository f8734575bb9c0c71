#include "retile/plan/typed_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "retile/collectives/sequence.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Groups = std::vector<std::vector<Device>>;

Sequence sequence_of(const char* text) { return parse_sequence(SourceText{"test", text}); }

TEST(TypedSteps, OfNoCollectivesAreNone) { EXPECT_THAT(typed_steps(sequence_of("mesh {a: 2} [2{a}4]")), IsEmpty()); }

TEST(TypedSteps, HaveTheFactorsAndGroupsOfTheirCollectives) {
  const Sequence sequence = sequence_of(R"(mesh {a: 2, b: 3}
    [6, 12]
    -> dynslice(0; a,b)
    -> alltoall(0, 1; a)
    -> allgather(1; a)
    -> allpermute [2{b}6, 12])");
  const std::vector<Step> steps = typed_steps(sequence);
  const Mesh& mesh = sequence.mesh();
  ASSERT_EQ(steps.size(), 4U);

  EXPECT_EQ(steps[0].op, StepOp::dynslice);
  EXPECT_THAT(steps[0].moves, ElementsAre(Move{-1, 0, 6}));
  EXPECT_EQ(steps[0].groups.list(mesh), Groups());
  EXPECT_THAT(steps[0].local_in, ElementsAre(6, 12));
  EXPECT_THAT(steps[0].local_out(), ElementsAre(1, 12));

  EXPECT_EQ(steps[1].op, StepOp::alltoall);
  EXPECT_THAT(steps[1].moves, ElementsAre(Move{0, 1, 2}));
  EXPECT_EQ(steps[1].groups.list(mesh), (Groups{{0, 3}, {1, 4}, {2, 5}}));

  EXPECT_EQ(steps[2].op, StepOp::allgather);
  EXPECT_THAT(steps[2].moves, ElementsAre(Move{1, -1, 2}));
  EXPECT_EQ(steps[2].groups.list(mesh), (Groups{{0, 3}, {1, 4}, {2, 5}}));

  EXPECT_EQ(steps[3].op, StepOp::allpermute);
  EXPECT_THAT(steps[3].moves, IsEmpty());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i].cost, 0);
    EXPECT_EQ(steps[i].after, Placement(sequence.types()[i + 1]));
    ASSERT_NE(steps[i].after.type(), nullptr) << "a type costs no memory per device";
  }
}

TEST(MatchTiles, KeepsTilesThatAreAlreadyInPlace) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto match = [&](const char* before, const char* after) {
    return match_tiles(Placement(parse_type(before, mesh)), Placement(parse_type(after, mesh)));
  };
  EXPECT_THAT(match("[2{a}4]", "[2{a}4]"),
              ElementsAre(DevicePair{0, 0}, DevicePair{1, 1}, DevicePair{2, 2}, DevicePair{3, 3}));
  // a puts the first half on devices 0 and 1, b on 0 and 2.
  EXPECT_THAT(match("[2{a}4]", "[2{b}4]"),
              ElementsAre(DevicePair{0, 0}, DevicePair{2, 1}, DevicePair{1, 2}, DevicePair{3, 3}));
  EXPECT_THAT(match("[1{a,b}4]", "[1{b,a}4]"),
              ElementsAre(DevicePair{0, 0}, DevicePair{2, 1}, DevicePair{1, 2}, DevicePair{3, 3}));
}

TEST(MatchTiles, IsABijectionThatFindsEveryTile) {
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
        for (const DevicePair& pair : match_tiles(from, to)) {
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
  const CostModel model = *rc::gen::element(CostModel::paper, CostModel::volume);
  const Plan plan = test::finish_plan(sequence.source(), sequence.target(), typed_steps(sequence), model);
  RC_ASSERT(find_faults(plan) == std::vector<std::string>());
  RC_ASSERT(plan.memory.peak == height(sequence));
  if (model == CostModel::paper) RC_ASSERT(plan.cost.total == cost(sequence));
}

RC_GTEST_PROP(TypedSteps, OfRandomSequencesMakeRightPlans, ()) {
  for (int i = 0; i < 20; ++i) check_random_sequence();
}

}  // namespace
}  // namespace retile
