// Gather everything, then slice: eq:naive-redistribution.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"
#include "tests/support/typed_steps.h"

namespace retile {
namespace {

std::string steps_of(const Plan& plan) {
  std::string out;
  for (const Step& step : plan.steps()) out += (out.empty() ? "" : " ") + to_string(step);
  return out;
}

TEST(GatherSlice, gathers_every_dimension_then_slices_every_dimension) {
  const Mesh mesh = parse_mesh("a=2,b=2,c=2");
  const Plan plan =
      test::gather_slice_plan(parse_type("[4, 1{a,b}4, 2{c}4]", mesh), parse_type("[1{a,c}4, 4, 2{b}4]", mesh));
  EXPECT_EQ(steps_of(plan), "allgather(1; 4) allgather(2; 2) dynslice(0; 4) dynslice(2; 2)");
  EXPECT_EQ(plan.planner, "gather-slice");
  EXPECT_EQ(plan.cost.model, "paper");
  EXPECT_EQ(plan.cost.total, 4 * 4 * 2 + 4 * 4 * 4);
  EXPECT_EQ(plan.cost.floor, received_floor(plan.source.placement(), plan.target.placement()));
  EXPECT_EQ(plan.cost.lower_bound, plan.cost.floor);
  EXPECT_FALSE(plan.cost.optimal);
  EXPECT_EQ(plan.memory.source, 8);
  EXPECT_EQ(plan.memory.target, 8);
  EXPECT_EQ(plan.memory.bound, 64) << "it is allowed what it takes";
  EXPECT_EQ(plan.memory.peak, 64);
  EXPECT_GE(plan.planning_ns, 0);
}

TEST(GatherSlice, has_no_steps_between_types_that_place_the_same_boxes) {
  const Mesh mesh = parse_mesh("a=6,b=1");
  const Plan equal = test::gather_slice_plan(parse_type("[1{a}6]", mesh), parse_type("[1{a:(2)3,a:(1)2}6]", mesh));
  EXPECT_EQ(steps_of(equal), "");
  EXPECT_EQ(equal.cost.total, 0);
  EXPECT_TRUE(equal.cost.optimal);
  EXPECT_EQ(equal.memory.peak, 1);
  EXPECT_EQ(steps_of(test::gather_slice_plan(parse_type("[6{b}6]", mesh), parse_type("[6]", mesh))), "");
  EXPECT_EQ(steps_of(test::gather_slice_plan(parse_type("[]", mesh), parse_type("[]", mesh))), "");
}

TEST(GatherSlice, only_slices_what_is_replicated_and_only_gathers_what_shall_be) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const Plan slice = test::gather_slice_plan(parse_type("[4]", mesh), parse_type("[1{a,b}4]", mesh));
  EXPECT_EQ(steps_of(slice), "dynslice(0; 4)");
  EXPECT_EQ(slice.cost.total, 0);
  EXPECT_TRUE(slice.cost.optimal);
  EXPECT_EQ(steps_of(test::gather_slice_plan(parse_type("[1{a,b}4]", mesh), parse_type("[4]", mesh))),
            "allgather(0; 4)");
}

TEST(GatherSlice, takes_no_steps_along_axes_of_size_one) {
  const Mesh mesh = parse_mesh("a=2,b=1,c=1");
  const auto steps = [&](const char* source, const char* target) {
    return steps_of(test::gather_slice_plan(parse_type(source, mesh), parse_type(target, mesh)));
  };
  EXPECT_EQ(steps("[2{a}4, 4{b}4]", "[4{c}4, 4]"), "allgather(0; 2)");
  EXPECT_EQ(steps("[4{b}4, 4{c}4]", "[2{a,b}4, 4]"), "dynslice(0; 2)");
  EXPECT_EQ(steps("[2{a,b}4, 4]", "[4, 2{b,a}4]"), "allgather(0; 2) dynslice(1; 2)");
  EXPECT_EQ(steps("[4, 4{b}4]", "[2{b,a}4, 4{c}4]"), "dynslice(0; 2)");
}

// Between all types, step by step the same as the sequence of typed collectives.
TEST(GatherSlice, is_eq_naive_redistribution) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8)) {
    const std::vector<DistributedType> types = test::all_types(mesh, test::divisible_shape(mesh, 2));
    for (const DistributedType& source : types) {
      for (const DistributedType& target : types) {
        const Plan plan = test::gather_slice_plan(source, target);
        EXPECT_EQ(plan.steps(), test::typed_steps(test::gather_and_slice(source, target)))
            << to_string(source) << " to " << to_string(target);
        EXPECT_EQ(plan.steps().empty(), same_placement(source, target));
        EXPECT_EQ(plan.movement.target(), Placement(target));
        ++covered;
      }
    }
  }
  EXPECT_EQ(covered, 3078);
}

TEST(Planner, gather_slice_has_its_name_in_the_plan_format) {
  EXPECT_STREQ(name_of(PlannerKind::gather_slice), "gather-slice");
  EXPECT_EQ(find_planner("gather-slice"), PlannerKind::gather_slice);
  EXPECT_EQ(find_planner("gather_slice"), std::nullopt);
  EXPECT_THAT(std::string(planner_names), ::testing::HasSubstr("gather-slice"));
}

TEST(Planner, keeps_the_id_of_the_problem) {
  const Mesh mesh = parse_mesh("a=2");
  const Problem problem("my problem", parse_type("[2{a}4]", mesh), parse_type("[4]", mesh));
  PlanOptions options;
  options.planner = PlannerKind::gather_slice;
  EXPECT_EQ(make_plan(problem, options).id, "my problem");
}

}  // namespace
}  // namespace retile
