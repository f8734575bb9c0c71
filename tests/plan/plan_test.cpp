#include "retile/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/plan/lists.h"
#include "retile/types/text.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::ElementsAre;

TEST(StepOp, has_its_name_in_the_plan_format) {
  EXPECT_STREQ(name_of(StepOp::dynslice), "dynslice");
  EXPECT_STREQ(name_of(StepOp::alltoall), "alltoall");
  EXPECT_STREQ(name_of(StepOp::allgather), "allgather");
  EXPECT_STREQ(name_of(StepOp::allpermute), "allpermute");
  EXPECT_STREQ(name_of(StepOp::exchange), "exchange");
}

TEST(Step, prints_its_moves) {
  const auto samples = test::sample_plans();
  const auto printed = [&](const char* name) { return to_string(test::sample_plan(samples, name).steps().front()); };
  EXPECT_EQ(printed("dynslice"), "dynslice(0; 2)");
  EXPECT_EQ(printed("wide dynslice"), "dynslice(0; 2, 1; 2)");
  EXPECT_EQ(printed("allgather"), "allgather(0; 2)");
  EXPECT_EQ(printed("alltoall"), "alltoall(0 -> 1; 2)");
  EXPECT_EQ(printed("wide alltoall"), "alltoall(0 -> 2; 2, 1 -> 2; 2)");
  EXPECT_EQ(printed("allpermute"), "allpermute");
  EXPECT_EQ(printed("exchange"), "exchange");
}

TEST(Step, has_a_group_size_where_it_has_factors) {
  const auto samples = test::sample_plans();
  const auto size = [&](const char* name) {
    return group_size(test::sample_plan(samples, name).steps().front().operation);
  };
  EXPECT_EQ(size("wide dynslice"), 4);
  EXPECT_EQ(size("allgather"), 2);
  EXPECT_EQ(size("wide allgather"), 4);
  EXPECT_EQ(size("free alltoall"), 4);
  EXPECT_EQ(size("allpermute"), 1);
  EXPECT_EQ(size("exchange"), 1);
}

TEST(Step, has_groups_where_they_are_listed) {
  const auto samples = test::sample_plans();
  const StepOperation gather = test::sample_plan(samples, "allgather").steps().front().operation;
  ASSERT_NE(groups_of(gather), nullptr);
  EXPECT_EQ(*groups_of(gather), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_of(without_lists(gather)), nullptr);
  EXPECT_EQ(groups_of(test::sample_plan(samples, "exchange").steps().front().operation), nullptr);
}

TEST(Plan, knows_what_devices_hold_before_each_step) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType first = parse_type("[2{a}4, 4]", mesh);
  const DistributedType second = parse_type("[2{b}4, 4]", mesh);
  const Plan plan = test::finish_plan(first, second, {test::permute_step(Placement(first), Placement(second))});
  EXPECT_EQ(plan.movement.before(0), Placement(first));
  EXPECT_EQ(plan.movement.before(1), Placement(second));
  EXPECT_EQ(plan.mesh(), mesh);
  EXPECT_THAT(plan.steps().front().local_out(), ElementsAre(2, 4));
}

}  // namespace
}  // namespace retile
