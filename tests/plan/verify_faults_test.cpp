// Plans that are wrong, and what the verifier says about each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/layouts.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Plan sample(const std::string& name) { return test::sample_plan(test::sample_plans(), name); }

// The sample with another placement after its only step.
Plan with_corners(Plan plan, std::vector<std::int64_t> corners) {
  Placement& after = plan.movement.steps[0].after;
  after = Placement(after.global_shape(), after.local_shape(), std::move(corners));
  return plan;
}

Plan with_groups(Plan plan, Groups groups) {
  StepOperation& operation = plan.movement.steps[0].operation;
  if (auto* gather = std::get_if<GatherStep>(&operation)) {
    gather->groups = std::move(groups);
  } else {
    std::get<AllToAllStep>(operation).groups = std::move(groups);
  }
  return plan;
}

Plan with_operation(Plan plan, StepOperation operation) {
  plan.movement.steps[0].operation = std::move(operation);
  return plan;
}

Plan with_pairs(Plan plan, std::vector<DevicePair> pairs) {
  return with_operation(plan, PermuteStep{std::move(pairs)});
}

std::vector<Piece>& transfers_of(Plan& plan) {
  return *std::get<ExchangeStep>(plan.movement.steps[0].operation).pieces;
}

// What is stated of the sample's only step.
std::vector<std::string> find_faults_in(const Plan& plan, PlanStatements::OfStep stated) {
  return find_faults(plan, {true, true, {std::move(stated)}});
}

// --- Offsets.

TEST(VerifyOffsets, sliced_from_what_the_device_held) {
  // Mesh {a: 2, b: 2}, from rows by a: a further slice by b would be 0, 1, 2, 3.
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4]", mesh);
  const DistributedType target = parse_type("[1{b,a}4]", mesh);
  const Plan plan = test::finish_plan(source, target, {test::slice_step({{0, 2}}, target)});
  EXPECT_THAT(find_faults(plan), IsEmpty());
  EXPECT_THAT(find_faults(with_corners(plan, {2, 1, 0, 3})),
              ElementsAre("step 0 (dynslice): device 0 lacks [2:3] of its box [2:3]; it held [0:2]",
                          "step 0 (dynslice): device 2 lacks [0:1] of its box [0:1]; it held [2:4]",
                          "after the last step device 0 holds [2:3], and its target is [0:1]",
                          "after the last step device 2 holds [0:1], and its target is [2:3]"));
}

TEST(VerifyOffsets, swapped_in_an_allgather) {
  EXPECT_THAT(find_faults(with_corners(sample("allgather"), {2, 0, 0, 0, 0, 0, 2, 0})),
              ElementsAre("step 0 (allgather): device 0 lacks [2:4, 0:4] of its box [2:4, 0:4]; its group held [0:1, "
                          "0:4], [1:2, 0:4]",
                          "step 0 (allgather): device 1 lacks [0:2, 0:4] of its box [0:2, 0:4]; its group held [2:3, "
                          "0:4], [3:4, 0:4]",
                          "after the last step device 0 holds [2:4, 0:4], and its target is [0:2, 0:4]",
                          "after the last step device 1 holds [0:2, 0:4], and its target is [2:4, 0:4]"));
}

TEST(VerifyOffsets, with_more_holders_for_some_tiles) {
  EXPECT_THAT(find_faults(with_corners(sample("dynslice"), {0, 0, 0, 0, 0, 0, 2, 0})),
              ElementsAre("step 0 (dynslice): some tiles have more holders than others",
                          "after the last step device 2 holds [0:2, 0:4], and its target is [2:4, 0:4]"));
}

TEST(VerifyOffsets, off_the_grid) {
  EXPECT_THAT(
      find_faults(with_corners(sample("dynslice"), {0, 0, 1, 0, 2, 0, 2, 0})),
      ElementsAre("step 0 (dynslice): device 1 has offset [1, 0], which is not on the grid of tiles of [2, 4]"));
}

TEST(VerifyOffsets, outside_the_array) {
  EXPECT_THAT(find_faults(with_corners(sample("dynslice"), {0, 0, 0, 0, 4, 0, 2, 0})),
              ElementsAre("step 0 (dynslice): device 2 has offset [4, 0], outside the array's shape [4, 4]"));
  EXPECT_THAT(find_faults(with_corners(sample("dynslice"), {0, 0, 0, -4, 2, 0, 2, 0})),
              ElementsAre("step 0 (dynslice): device 1 has offset [0, -4], outside the array's shape [4, 4]"));
  EXPECT_THAT(
      find_faults(with_corners(sample("dynslice"), {0, 0, 0, 0, 2, 0, INT64_MAX, INT64_MIN})),
      ElementsAre("step 0 (dynslice): device 3 has offset [9223372036854775807, -9223372036854775808], outside the "
                  "array's shape [4, 4]"));
}

TEST(VerifyOffsets, of_tiles_that_do_not_divide_the_array) {
  Plan plan = sample("exchange");
  const auto with_local = [&](Shape local) {
    plan.movement.steps[0].after = Placement({4, 4}, local, std::vector<std::int64_t>(8));
    return find_faults(plan);
  };
  EXPECT_THAT(with_local({3, 4}),
              ElementsAre("step 0 (exchange): tiles of [3, 4] do not divide the array's shape [4, 4]"));
  EXPECT_THAT(with_local({4, 8}),
              ElementsAre("step 0 (exchange): tiles of [4, 8] do not divide the array's shape [4, 4]"));
  EXPECT_THAT(with_local({0, 4}),
              ElementsAre("step 0 (exchange): tiles of [0, 4] do not divide the array's shape [4, 4]"));
  EXPECT_THAT(
      with_local({INT64_MAX, 1}),
      ElementsAre("step 0 (exchange): tiles of [9223372036854775807, 1] do not divide the array's shape [4, 4]"));
}

TEST(VerifyOffsets, of_another_array_or_too_few_devices) {
  Plan plan = sample("exchange");
  plan.movement.steps[0].after = Placement({8, 2}, {2, 2}, std::vector<std::int64_t>(8));
  const auto fault = ElementsAre("step 0 (exchange): the boxes after it do not cover the same array on 4 devices");
  EXPECT_THAT(find_faults(plan), fault);
  plan.movement.steps[0].after = Placement({4, 4}, {2, 2}, std::vector<std::int64_t>(6));
  EXPECT_THAT(find_faults(plan), fault);
}

// --- Groups.

TEST(VerifyGroups, miss_a_device) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {1}})),
              ElementsAre("step 0 (allgather): device 3 is in no group"));
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {})),
              ElementsAre("step 0 (allgather): device 0 is in no group"));
}

TEST(VerifyGroups, name_a_device_twice) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {1, 2}})),
              ElementsAre("step 0 (allgather): device 2 is in two groups"));
  EXPECT_THAT(find_faults(with_groups(sample("alltoall"), {{0, 0}, {1, 3}})),
              ElementsAre("step 0 (alltoall): device 0 is in two groups"));
}

TEST(VerifyGroups, name_a_device_that_is_not_there) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {1, 4}})),
              ElementsAre("step 0 (allgather): there is no device 4"));
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {INT64_MIN, 3}})),
              ElementsAre("step 0 (allgather): there is no device -9223372036854775808"));
  EXPECT_THAT(find_faults_in(sample("exchange"), {{}, {}, Groups{{0, INT64_MAX}}}),
              ElementsAre("step 0 (exchange): there is no device 9223372036854775807"));
}

TEST(VerifyGroups, of_another_size_than_the_moves_need) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2, 1}, {3}})),
              ElementsAre("step 0 (allgather): the group of device 0 has 3 members, and its moves need 2"));
  EXPECT_THAT(find_faults(with_groups(sample("wide alltoall"), {{0, 2}, {1, 3}})),
              ElementsAre("step 0 (alltoall): the group of device 0 has 2 members, and its moves need 4"));
}

TEST(VerifyGroups, that_do_not_connect_what_is_needed) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 1}, {2, 3}})),
              ElementsAre("step 0 (allgather): device 0 lacks [1:2, 0:4] of its box [0:2, 0:4]; its group held [0:1, "
                          "0:4], [2:3, 0:4]",
                          "step 0 (allgather): device 1 lacks [3:4, 0:4] of its box [2:4, 0:4]; its group held [0:1, "
                          "0:4], [2:3, 0:4]",
                          "step 0 (allgather): device 2 lacks [0:1, 0:4] of its box [0:2, 0:4]; its group held [1:2, "
                          "0:4], [3:4, 0:4]",
                          "step 0 (allgather): device 3 lacks [2:3, 0:4] of its box [2:4, 0:4]; its group held [1:2, "
                          "0:4], [3:4, 0:4]"));
  EXPECT_THAT(find_faults(with_groups(sample("alltoall"), {{0, 1}, {2, 3}})),
              ElementsAre("step 0 (alltoall): device 0 lacks [2:4, 0:2] of its box [0:4, 0:2]; its group held [0:2, "
                          "0:4], [0:2, 0:4]",
                          "step 0 (alltoall): device 1 lacks [2:4, 0:2] of its box [0:4, 0:2]; its group held [0:2, "
                          "0:4], [0:2, 0:4]",
                          "step 0 (alltoall): device 2 lacks [0:2, 2:4] of its box [0:4, 2:4]; its group held [2:4, "
                          "0:4], [2:4, 0:4]",
                          "step 0 (alltoall): device 3 lacks [0:2, 2:4] of its box [0:4, 2:4]; its group held [2:4, "
                          "0:4], [2:4, 0:4]"));
}

TEST(VerifyGroups, list_at_most_four_boxes) {
  const Mesh pairs = parse_mesh("a=8,b=2");
  const DistributedType source = parse_type("[1{a}8, 1{b}2]", pairs);
  const DistributedType target = parse_type("[8, 1{b}2]", pairs);
  Groups groups = test::groups_along(pairs, {pairs.whole(0)});
  std::swap(groups[0][7], groups[1][7]);
  const Step step{GatherStep{{{0, 8}}, groups}, Placement(target)};
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step}), {}, 1),
              ElementsAre("step 0 (allgather): device 0 lacks [7:8, 0:1] of its box [0:8, 0:1]; its group held [0:1, "
                          "0:1], [1:2, 0:1], [2:3, 0:1], [3:4, 0:1] and 4 more"));
}

// Each group by itself could do it by sending one piece to both: that is no alltoall.
TEST(VerifyGroups, of_an_alltoall_that_gives_one_piece_to_two) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4, 4]", mesh);
  const DistributedType target = parse_type("[4, 2{b}4]", mesh);
  const Plan plan = test::finish_plan(source, target, {test::alltoall_step({{0, 1, 2}}, {mesh.whole(0)}, target)});
  EXPECT_THAT(
      find_faults(plan),
      ElementsAre("step 0 (alltoall): devices 0 and 2 both get [0:4, 0:2], and an alltoall gives each piece to one",
                  "step 0 (alltoall): devices 1 and 3 both get [0:4, 2:4], and an alltoall gives each piece to one"));
}

TEST(VerifyGroups, of_an_alltoall_that_is_a_permutation) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4, 2{b}4]", mesh);
  const DistributedType target = parse_type("[2{b}4, 2{a}4]", mesh);
  const Plan plan = test::finish_plan(
      source, target, {test::alltoall_step({{0, 1, 2}, {1, 0, 2}}, {mesh.whole(0), mesh.whole(1)}, target)});
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (alltoall): device 0 sends device 0 4 elements, and an alltoall sends 1 to each",
                          "step 0 (alltoall): device 0 sends device 1 0 elements, and an alltoall sends 1 to each",
                          "step 0 (alltoall): device 0 sends device 2 0 elements, and an alltoall sends 1 to each",
                          "step 0 (alltoall): device 0 sends device 3 0 elements, and an alltoall sends 1 to each"));
}

TEST(VerifyGroups, of_an_exchange_that_transfers_do_not_connect) {
  EXPECT_THAT(find_faults_in(sample("exchange"), {{}, {}, Groups{{0, 1}, {2, 3}}}),
              ElementsAre("step 0 (exchange): transfers connect devices of different groups"));
  EXPECT_THAT(find_faults_in(sample("exchange of a scalar"), {{}, {}, Groups{{0, 1}, {2}, {3}}}),
              ElementsAre("step 0 (exchange): devices 0 and 1 share a group, and no transfers connect them"));
}

// --- Shapes and moves.

TEST(VerifyShapes, local_in_that_devices_do_not_hold) {
  EXPECT_THAT(find_faults_in(sample("alltoall"), {Shape{2, 4}, {}, {}}), IsEmpty());
  EXPECT_THAT(find_faults_in(sample("alltoall"), {Shape{4, 2}, {}, {}}),
              ElementsAre("step 0 (alltoall): local_in is [4, 2], and the devices hold [2, 4]"));
  EXPECT_THAT(find_faults_in(sample("alltoall"), {Shape{INT64_MAX, INT64_MAX}, {}, {}}),
              ElementsAre("step 0 (alltoall): local_in is [9223372036854775807, 9223372036854775807], and the devices "
                          "hold [2, 4]"));
}

TEST(VerifyShapes, local_out_that_devices_do_not_hold) {
  EXPECT_THAT(find_faults_in(sample("alltoall"), {{}, Shape{4, 2}, {}}), IsEmpty());
  EXPECT_THAT(find_faults_in(sample("alltoall"), {{}, Shape{INT64_MAX, INT64_MAX}, {}}),
              ElementsAre("step 0 (alltoall): local_out is [9223372036854775807, 9223372036854775807], and the devices "
                          "hold [4, 2]"));
}

TEST(VerifyShapes, local_out_that_moves_do_not_lead_to) {
  Plan plan = sample("allgather");
  plan.movement.steps[0].after = Placement(parse_type("[4, 4]", plan.mesh()));
  EXPECT_THAT(find_faults(plan, {}, 3),
              ElementsAre("step 0 (allgather): its moves lead to local shape [2, 4], and local_out is [4, 4]",
                          "step 0 (allgather): device 0 lacks [2:4, 0:4] of its box [0:4, 0:4]; its group held [0:1, "
                          "0:4], [1:2, 0:4]",
                          "step 0 (allgather): device 2 lacks [2:4, 0:4] of its box [0:4, 0:4]; its group held [0:1, "
                          "0:4], [1:2, 0:4]"));
}

TEST(VerifyShapes, moves_along_another_dimension_or_by_another_factor) {
  EXPECT_THAT(find_faults(with_operation(sample("dynslice"), SliceStep{{{1, 2}}})),
              ElementsAre("step 0 (dynslice): its moves lead to local shape [4, 2], and local_out is [2, 4]"));
  EXPECT_THAT(find_faults(with_operation(sample("dynslice"), SliceStep{{{0, 4}}})),
              ElementsAre("step 0 (dynslice): its moves lead to local shape [1, 4], and local_out is [2, 4]"));
  EXPECT_THAT(find_faults(with_operation(sample("dynslice"), SliceStep{})),
              ElementsAre("step 0 (dynslice): its moves lead to local shape [4, 4], and local_out is [2, 4]"));
}

TEST(VerifyShapes, moves_that_do_not_divide) {
  EXPECT_THAT(find_faults(with_operation(sample("dynslice"), SliceStep{{{0, 3}}})),
              ElementsAre("step 0 (dynslice): local size 4 of dimension 0 does not divide by 3"));
}

TEST(VerifyShapes, moves_that_are_none) {
  const auto faults_with = [](const char* name, StepOperation operation) {
    return find_faults(with_operation(sample(name), std::move(operation)), {}, 1);
  };
  const char* dynslice = "step 0 (dynslice): a move that does not fit its kind";
  EXPECT_THAT(faults_with("dynslice", SliceStep{{{-1, 2}}}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", SliceStep{{{2, 2}}}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", SliceStep{{{0, 0}}}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", SliceStep{{{0, -2}}}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("allgather", GatherStep{{{2, 2}}, {}}),
              ElementsAre("step 0 (allgather): a move that does not fit its kind"));
  EXPECT_THAT(faults_with("alltoall", AllToAllStep{{{0, -1, 2}}, {}}),
              ElementsAre("step 0 (alltoall): a move that does not fit its kind"));
  EXPECT_THAT(faults_with("alltoall", AllToAllStep{{{2, 0, 2}}, {}}),
              ElementsAre("step 0 (alltoall): a move that does not fit its kind"));
}

TEST(VerifyShapes, moves_beyond63_bits) {
  const Groups groups{{0, 2}, {1, 3}};
  EXPECT_THAT(find_faults(with_operation(sample("allgather"), GatherStep{{{0, INT64_MAX}, {0, 2}}, groups})),
              ElementsAre("step 0 (allgather): a move by 2 does not fit in 63 bits"));
  EXPECT_THAT(
      find_faults(with_operation(sample("allgather"), GatherStep{{{0, INT64_MAX}, {1, INT64_MAX / 4}}, groups}), {}, 2),
      ElementsAre("step 0 (allgather): its moves lead to local shape [9223372036854775807, "
                  "9223372036854775804], and local_out is [2, 4]",
                  "step 0 (allgather): the group of device 0 has 2 members, and its moves need "
                  "9223372036854775807"));
}

// --- Steps without lists: whether there are some.

TEST(VerifyWithoutLists, gathers_that_leave_what_a_device_held) {
  const Plan plan =
      with_corners(with_operation(sample("allgather"), GatherStep{{{0, 2}}, {}}), {2, 0, 0, 0, 0, 0, 2, 0});
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (allgather): device 0 gathers [2:4, 0:4], and it held [0:1, 0:4]",
                          "step 0 (allgather): device 1 gathers [0:2, 0:4], and it held [2:3, 0:4]",
                          "after the last step device 0 holds [2:4, 0:4], and its target is [0:2, 0:4]",
                          "after the last step device 1 holds [0:2, 0:4], and its target is [2:4, 0:4]"));
}

TEST(VerifyWithoutLists, alltoalls_out_of_what_their_groups_hold) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[1{a,b}4, 4]", mesh);
  const DistributedType target = parse_type("[2{a}4, 2{b}4]", mesh);
  const Plan plan = test::finish_plan(source, target, {{AllToAllStep{{{0, 1, 2}}, {}}, Placement(target)}});
  EXPECT_THAT(
      find_faults(plan),
      ElementsAre("step 0 (alltoall): device 1 goes from [2:3, 0:4] to [0:2, 2:4], out of what its group holds",
                  "step 0 (alltoall): device 2 goes from [1:2, 0:4] to [2:4, 0:2], out of what its group holds"));
}

TEST(VerifyWithoutLists, alltoalls_between_tiles_that_do_not_nest) {
  const Mesh mesh = parse_mesh("a=6");
  const DistributedType source = parse_type("[2{a:(2)3}6, 6]", mesh);
  const DistributedType target = parse_type("[3{a:(1)2}6, 6]", mesh);
  const Step step{AllToAllStep{{{0, 1, 3}, {1, 0, 2}}, {}}, Placement(target)};
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step})),
              ElementsAre("step 0 (alltoall): its moves lead to local shape [3, 4], and local_out is [3, 6]",
                          "step 0 (alltoall): tiles of 2 and 3 along dimension 0 do not nest"));
}

// What goes to a dimension and on from it is no single alltoall, even where the shapes come out right.
TEST(VerifyWithoutLists, alltoalls_with_moves_that_chain) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4, 4, 4]", mesh);
  const DistributedType target = parse_type("[4, 4, 2{a}4]", mesh);
  const Step step{AllToAllStep{{{0, 1, 2}, {1, 2, 2}}, {}}, Placement(target)};
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step})),
              ElementsAre("step 0 (alltoall): its groups have 2 members, and its moves need 4"));
}

TEST(VerifyWithoutLists, permutations_to_another_shape) {
  Plan plan = with_operation(sample("allpermute"), PermuteStep{});
  plan.movement.steps[0].after = Placement(parse_type("[4, 2{a}4]", plan.mesh()));
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (allpermute): a permutation keeps the local shape, and [4, 2] is not [2, 4]"));
}

TEST(VerifyWithoutLists, any_step_to_tiles_with_unequally_many_holders) {
  const std::vector<std::int64_t> corners{0, 0, 0, 0, 0, 0, 2, 0};
  EXPECT_THAT(find_faults(with_corners(with_operation(sample("allpermute"), PermuteStep{}), corners), {}, 1),
              ElementsAre("step 0 (allpermute): some tiles have more holders than others"));
}

// --- Permutations.

TEST(VerifyAllpermute, that_is_no_bijection) {
  const Plan plan = sample("allpermute");
  EXPECT_THAT(find_faults(with_pairs(plan, {{0, 0}, {2, 1}, {0, 2}, {3, 3}})),
              ElementsAre("step 0 (allpermute): device 0 sends its tile twice"));
  EXPECT_THAT(find_faults(with_pairs(plan, {{0, 0}, {2, 1}, {1, 0}, {3, 3}})),
              ElementsAre("step 0 (allpermute): device 0 is sent two tiles"));
  EXPECT_THAT(find_faults(with_pairs(plan, {{0, 0}, {2, 1}, {1, 2}})),
              ElementsAre("step 0 (allpermute): 3 pairs for 4 devices"));
}

TEST(VerifyAllpermute, that_sends_the_wrong_tile) {
  EXPECT_THAT(
      find_faults(with_pairs(sample("allpermute"), {{0, 0}, {1, 1}, {2, 2}, {3, 3}})),
      ElementsAre("step 0 (allpermute): device 1 lacks [2:4, 0:4] of its box [2:4, 0:4]; device 1 held [0:2, 0:4]",
                  "step 0 (allpermute): device 2 lacks [0:2, 0:4] of its box [0:2, 0:4]; device 2 held [2:4, 0:4]"));
}

TEST(VerifyAllpermute, with_a_device_that_is_not_there) {
  EXPECT_THAT(find_faults(with_pairs(sample("allpermute"), {{0, 0}, {2, 1}, {1, 4}, {3, 3}})),
              ElementsAre("step 0 (allpermute): there is no device 4"));
  EXPECT_THAT(find_faults(with_pairs(sample("allpermute"), {{0, 0}, {2, 1}, {-1, 2}, {3, 3}})),
              ElementsAre("step 0 (allpermute): there is no device -1"));
}

TEST(VerifyAllpermute, to_another_shape) {
  Plan plan = sample("allpermute");
  plan.movement.steps[0].after = Placement(parse_type("[4, 2{a}4]", plan.mesh()));
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (allpermute): a permutation keeps the local shape, and [4, 2] is not [2, 4]"));
}

// --- Exchanges. Device 0 of the sample holds row 0 and ends with rows and columns 0 and 1.

TEST(VerifyExchange, with_a_transfer_missing) {
  Plan plan = sample("exchange");
  transfers_of(plan).erase(transfers_of(plan).begin());
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (exchange): device 0 lacks [1:2, 0:2] of its box [0:2, 0:2]; it held or was sent "
                          "[0:1, 0:4]"));
}

TEST(VerifyExchange, with_a_transfer_of_what_the_sender_does_not_hold) {
  Plan plan = sample("exchange");
  transfers_of(plan)[0].from = 3;
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 3 sends [1:2, 0:2], and it held [3:4, 0:4]"));
}

TEST(VerifyExchange, with_a_transfer_to_the_wrong_device) {
  Plan plan = sample("exchange");
  transfers_of(plan)[0].to = 1;
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (exchange): device 1 is sent [1:2, 0:2], which is not in its box [0:2, 2:4]",
                          "step 0 (exchange): device 0 lacks [1:2, 0:2] of its box [0:2, 0:2]; it held or was sent "
                          "[0:1, 0:4]"));
}

TEST(VerifyExchange, with_a_transfer_to_itself) {
  Plan plan = sample("exchange");
  transfers_of(plan).push_back({0, 0, {{0, 0}, {1, 2}}});
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 0 sends to itself"));
}

TEST(VerifyExchange, with_a_transfer_that_is_no_box) {
  const auto faults_with = [](Box box) {
    Plan plan = sample("exchange");
    transfers_of(plan)[0].box = std::move(box);
    return find_faults(plan);
  };
  EXPECT_THAT(faults_with({{1, 0}, {1, 2}}), ElementsAre("step 0 (exchange): [1:1, 0:2] is no box of the array"));
  EXPECT_THAT(faults_with({{-1, 0}, {2, 2}}), ElementsAre("step 0 (exchange): [-1:2, 0:2] is no box of the array"));
  EXPECT_THAT(faults_with({{1, 0}, {5, 2}}), ElementsAre("step 0 (exchange): [1:5, 0:2] is no box of the array"));
  EXPECT_THAT(faults_with({{1}, {2}}), ElementsAre("step 0 (exchange): [1:2] is no box of the array"));
  EXPECT_THAT(faults_with({{INT64_MIN, INT64_MIN}, {INT64_MAX, INT64_MAX}}),
              ElementsAre("step 0 (exchange): [-9223372036854775808:9223372036854775807, "
                          "-9223372036854775808:9223372036854775807] is no box of the array"));
}

TEST(VerifyExchange, with_a_device_that_is_not_there) {
  Plan plan = sample("exchange");
  transfers_of(plan)[0].to = 4;
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): there is no device 4"));
}

// Once is enough, however little of its box the device lacks.
TEST(VerifyExchange, that_sends_an_element_twice) {
  Plan plan = sample("exchange");
  transfers_of(plan).push_back(transfers_of(plan)[0]);
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 0 is sent [1:2, 0:2] twice"));
  plan = sample("exchange");
  transfers_of(plan).push_back({2, 1, {{1, 3}, {2, 4}}});  // part of the third transfer
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 1 is sent [1:2, 3:4] twice"));
}

TEST(VerifyExchange, that_sends_more_than_fits) {
  const Mesh mesh = parse_mesh("a=2");
  const DistributedType type = parse_type("[9223372036854775807]", mesh);
  const Box whole{{0}, {INT64_MAX}};
  const Step step{ExchangeStep{{{{0, 1, whole}, {0, 1, whole}, {0, 1, whole}}}}, Placement(type)};
  Plan plan = test::finish_plan(type, type, {step}, volume_model());
  EXPECT_EQ(plan.cost.total, INT64_MAX);
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 1 is sent [0:9223372036854775807] twice"));
  plan.cost.total = plan.cost.steps[0] = 1;
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 1 is sent [0:9223372036854775807] twice",
                                             "step 0 (exchange): it costs 9223372036854775807, not 1"));
}

// --- The plan as a whole.

TEST(VerifyPlan, that_ends_elsewhere) {
  Plan plan = sample("dynslice");
  plan.target = parse_type("[2{b}4, 4]", plan.mesh());
  plan.cost.floor = received_floor(plan.source.placement(), plan.target.placement());
  EXPECT_THAT(find_faults(plan),
              ElementsAre("after the last step device 1 holds [0:2, 0:4], and its target is [2:4, 0:4]",
                          "after the last step device 2 holds [2:4, 0:4], and its target is [0:2, 0:4]"));
  plan.target = parse_type("[4, 2{b}4]", plan.mesh());
  EXPECT_THAT(find_faults(plan),
              ElementsAre("after the last step the local shape is [2, 4], and the target has [4, 2]"));
}

TEST(VerifyPlan, of_different_arrays) {
  Plan plan = sample("dynslice");
  plan.target = parse_type("[2{a}4]", plan.mesh());
  EXPECT_THAT(find_faults(plan), ElementsAre("source and target have different global shapes: [4, 4] and [4]"));
  plan.target = parse_type("[2{a}4, 4]", parse_mesh("a=2"));
  EXPECT_THAT(find_faults(plan),
              ElementsAre("after the last step device 1 holds [0:2, 0:4], and its target is [2:4, 0:4]",
                          "after the last step device 2 holds [2:4, 0:4], and its target is nothing",
                          "after the last step device 3 holds [2:4, 0:4], and its target is nothing"));
}

TEST(VerifyPlan, with_wrong_sizes) {
  const auto faults_with = [](auto change) {
    Plan plan = sample("allgather");
    change(plan.memory);
    return find_faults(plan);
  };
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.source = 5; }), ElementsAre("memory: source is 4, not 5"));
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.target = 4; }), ElementsAre("memory: target is 8, not 4"));
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.peak = 4; }), ElementsAre("memory: peak is 8, not 4"));
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.bound = 8; }), IsEmpty());
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.bound = 9; }), IsEmpty());
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.bound = 7; }),
              ElementsAre("memory: the peak of 8 is above the bound of 7"));
}

TEST(VerifyPlan, with_wrong_costs) {
  const auto faults_with = [](auto change) {
    Plan plan = sample("allgather");
    change(plan);
    return find_faults(plan);
  };
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.steps[0] = plan.cost.total = 7; }),
              ElementsAre("step 0 (allgather): it costs 8, not 7"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.total = 9; }), ElementsAre("cost: the steps sum up to 8, not 9"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.lower_bound = 9; }),
              ElementsAre("cost: the lower bound 9 is above the total 8"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.optimal = true; }),
              ElementsAre("cost: called optimal, with a lower bound of 4 below 8"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.lower_bound = 8; }),
              ElementsAre("cost: not called optimal, and its total is the lower bound, 8"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.floor = 5; }), ElementsAre("cost: the floor is 4, not 5"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.model = "volume"; }),
              ElementsAre("step 0 (allgather): it costs 4, not 8"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.steps.clear(); }), ElementsAre("cost: 0 costs for 1 steps"));
}

TEST(VerifyPlan, under_an_unknown_model) {
  Plan plan = sample("allgather");
  plan.cost.model = "my machine";
  plan.cost.steps[0] = plan.cost.total = 7;
  EXPECT_THAT(find_faults(plan), ElementsAre()) << "what its steps cost is not judged";
  plan.cost.total = 9;
  plan.cost.floor = 5;
  EXPECT_THAT(find_faults(plan), ElementsAre("cost: the steps sum up to 7, not 9", "cost: the floor is 4, not 5"));
}

TEST(VerifyPlan, with_costs_beyond63_bits) {
  const DistributedType type = parse_type("[9223372036854775807]", parse_mesh("a=2"));
  const Step step = test::permute_step(Placement(type), Placement(type));
  Plan plan = test::finish_plan(type, type, {step});
  plan.movement.steps.push_back(step);
  plan.cost.steps.push_back(plan.cost.steps[0]);
  EXPECT_THAT(find_faults(plan), ElementsAre("cost: the sum of the steps does not fit in 63 bits"));
}

// --- Boxes of any kind.

Plan plan_between(const test::ProblemText& text) { return make_plan(test::problem_of(text)); }

Plan with_boxes(Plan plan, const std::vector<std::vector<Box>>& boxes) {
  std::vector<std::vector<Part>> parts(boxes.size());
  for (std::size_t device = 0; device < boxes.size(); ++device) {
    for (const Box& box : boxes[device]) parts[device].push_back(packed_part(box));
  }
  Placement& after = plan.movement.steps.back().after;
  after = Placement(after.global_shape(), std::move(parts));
  return plan;
}

const test::ProblemText seven_on_two_and_three{"a=2", "[4{a}7]", "a=3", "[3{a}7]"};

TEST(VerifyBoxes, of_a_right_plan) { EXPECT_THAT(find_faults(plan_between(seven_on_two_and_three)), IsEmpty()); }

TEST(VerifyBoxes, larger_than_the_target) {
  EXPECT_THAT(find_faults(with_boxes(plan_between(seven_on_two_and_three), {{{{0}, {3}}}, {{{3}, {7}}}, {{{6}, {7}}}})),
              ElementsAre("after the last step device 1 holds [3:7], and its target is [3:6]",
                          "step 0 (exchange): it costs 4, not 3"));
}

TEST(VerifyBoxes, that_are_missing_at_the_end) {
  EXPECT_THAT(find_faults(with_boxes(plan_between(seven_on_two_and_three), {{{{0}, {3}}}, {{{3}, {6}}}, {}})),
              ElementsAre("step 0 (exchange): device 2 is sent [6:7], which is not in its box nothing",
                          "after the last step device 2 holds nothing, and its target is [6:7]"));
}

TEST(VerifyBoxes, of_which_only_exchanges_and_slices_take_several) {
  Plan plan = plan_between({"a=2", "[6] boxes {[0:1] [4:6]; [1:4]}", "a=2", "[6] boxes {[1:4]; [0:1] [4:6]}"});
  EXPECT_THAT(find_faults(plan), IsEmpty());
  plan.movement.steps[0].operation = PermuteStep{{{{0, 1}, {1, 0}}}};
  EXPECT_THAT(
      find_faults(plan),
      ElementsAre("step 0 (allpermute): some device holds several boxes, which only an exchange or a slice can take"));
}

TEST(VerifyBoxes, that_a_permutation_changes) {
  Plan plan = plan_between({"a=2", "[3{a}5]", "a=2", "[3{a}5] on [1, 0]"});
  plan.movement.steps = {{PermuteStep{{{{0, 1}, {1, 0}}}}, plan.movement.steps.back().after}};
  plan.cost.steps = {3};
  plan.cost.total = 3;
  EXPECT_THAT(find_faults(plan), IsEmpty());
  EXPECT_THAT(
      find_faults(with_boxes(plan, {{{{3}, {5}}}, {{{0}, {2}}}})),
      ElementsAre(
          "step 0 (allpermute): device 1 gets [0:2], and a permutation keeps tiles as they are: device 0 held [0:3]",
          "after the last step device 1 holds [0:2], and its target is [0:3]",
          "step 0 (allpermute): it costs 2, not 3"));
}

TEST(VerifyBoxes, in_another_world) {
  Plan plan = plan_between(seven_on_two_and_three);
  plan.target = parse_layout("[2{a}7]", parse_mesh("a=4"));
  EXPECT_THAT(find_faults(plan), ElementsAre("source and target are on 2 and 4 devices, and the steps on 3"));
}

TEST(VerifyBoxes, with_sizes_of_another_device) {
  Plan plan = plan_between(seven_on_two_and_three);
  plan.memory = {3, 1, 4, 3};
  EXPECT_THAT(find_faults(plan),
              ElementsAre("memory: source is 4, not 3", "memory: target is 3, not 1", "memory: peak is 4, not 3"));
}

TEST(VerifyPlan, names_the_step_at_fault) {
  const Mesh mesh = parse_mesh("a=2");
  Plan plan = test::gather_slice_plan(parse_type("[2{a}4, 4]", mesh), parse_type("[4, 2{a}4]", mesh));
  plan.cost.steps[1] = 3;
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 1 (dynslice): it costs 0, not 3", "cost: the steps sum up to 19, not 16"));
}

TEST(VerifyPlan, stops_when_it_has_found_enough) {
  const Mesh mesh = parse_mesh("a=16");
  Plan plan = test::gather_slice_plan(parse_type("[1{a}16]", mesh), parse_type("[16]", mesh));
  plan.target = plan.source;
  plan.movement.steps[0].after = Placement({16}, {16}, std::vector<std::int64_t>(16));
  const Groups groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}};
  plan.movement.steps[0].operation = GatherStep{{{0, 2}}, groups};
  EXPECT_EQ(find_faults(plan).size(), 10U);
  EXPECT_EQ(find_faults(plan, {}, 3).size(), 3U);
  EXPECT_EQ(find_faults(plan, {}, 1).size(), 1U);
}

// Numbers at the ends of 64 bits, everywhere a plan's text may have them.
TEST(VerifyPlan, read_from_text_with_huge_numbers) {
  const std::string text =
      R"({"mesh": {"a": 2}, "source": "[4611686018427387904{a}9223372036854775807]", "target": "[1]", "planner": "",)";
  EXPECT_THROW(parse_plan({"plan", text}), InputError);
  const auto [plan, statements] =
      parse_plan({"plan",
                  R"({"mesh": {"a": 2}, "source": "[2{a}4]", "target": "[4]", "planner": "x",
           "cost": {"model": "paper", "total": 9223372036854775807, "lower_bound": 9223372036854775807,
                    "floor": 9223372036854775807, "optimal": true},
           "memory": {"source": 9223372036854775807, "target": 9223372036854775807, "bound": 9223372036854775807,
                      "peak": 9223372036854775807},
           "steps": [{"op": "allgather", "moves": [{"dim": 0, "factor": 9223372036854775807}], "groups": [[0, 1]],
                      "local_in": [9223372036854775807], "local_out": [4], "cost": 9223372036854775807,
                      "offsets": [[0], [0]]}]})"});
  EXPECT_THAT(find_faults(plan, statements),
              ElementsAre("step 0 (allgather): a move by 9223372036854775807 does not fit in 63 bits"));
}

}  // namespace
}  // namespace retile
