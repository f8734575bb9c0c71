// Plans that are wrong, and what the verifier says about each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Groups = std::vector<std::vector<Device>>;

Plan sample(const std::string& name) { return test::sample_plan(test::sample_plans(), name); }

// The sample with another placement after its only step.
Plan with_corners(Plan plan, std::vector<std::int64_t> corners) {
  Placement& after = plan.steps[0].after;
  after = Placement(after.global_shape(), after.local_shape(), std::move(corners));
  return plan;
}

Plan with_groups(Plan plan, Groups groups) {
  plan.steps[0].groups = DeviceGroups(std::move(groups));
  return plan;
}

// --- Offsets.

TEST(VerifyOffsets, SlicedFromWhatTheDeviceHeld) {
  // Mesh {a: 2, b: 2}, from rows by a: a further slice by b would be 0, 1, 2, 3.
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4]", mesh);
  const DistributedType target = parse_type("[1{b,a}4]", mesh);
  const Plan plan =
      test::finish_plan(source, target, {test::collective_step(StepOp::dynslice, {{-1, 0, 2}}, {}, source, target)});
  EXPECT_THAT(find_faults(plan), IsEmpty());
  EXPECT_THAT(find_faults(with_corners(plan, {2, 1, 0, 3})),
              ElementsAre("step 0 (dynslice): device 0 lacks [2:3] of its box [2:3]; it held [0:2]",
                          "step 0 (dynslice): device 2 lacks [0:1] of its box [0:1]; it held [2:4]",
                          "after the last step device 0 holds [2:3], and its target is [0:1]",
                          "after the last step device 2 holds [0:1], and its target is [2:3]"));
}

TEST(VerifyOffsets, SwappedInAnAllgather) {
  EXPECT_THAT(find_faults(with_corners(sample("allgather"), {2, 0, 0, 0, 0, 0, 2, 0})),
              ElementsAre("step 0 (allgather): device 0 lacks [2:4, 0:4] of its box [2:4, 0:4]; its group held [0:1, "
                          "0:4], [1:2, 0:4]",
                          "step 0 (allgather): device 1 lacks [0:2, 0:4] of its box [0:2, 0:4]; its group held [2:3, "
                          "0:4], [3:4, 0:4]",
                          "after the last step device 0 holds [2:4, 0:4], and its target is [0:2, 0:4]",
                          "after the last step device 1 holds [0:2, 0:4], and its target is [2:4, 0:4]"));
}

TEST(VerifyOffsets, WithMoreHoldersForSomeTiles) {
  EXPECT_THAT(find_faults(with_corners(sample("dynslice"), {0, 0, 0, 0, 0, 0, 2, 0})),
              ElementsAre("step 0 (dynslice): some tiles have more holders than others",
                          "after the last step device 2 holds [0:2, 0:4], and its target is [2:4, 0:4]"));
}

TEST(VerifyOffsets, OffTheGrid) {
  EXPECT_THAT(
      find_faults(with_corners(sample("dynslice"), {0, 0, 1, 0, 2, 0, 2, 0})),
      ElementsAre("step 0 (dynslice): device 1 has offset [1, 0], which is not on the grid of tiles of [2, 4]"));
}

TEST(VerifyOffsets, OutsideTheArray) {
  EXPECT_THAT(find_faults(with_corners(sample("dynslice"), {0, 0, 0, 0, 4, 0, 2, 0})),
              ElementsAre("step 0 (dynslice): device 2 has offset [4, 0], outside the array's shape [4, 4]"));
  EXPECT_THAT(find_faults(with_corners(sample("dynslice"), {0, 0, 0, -4, 2, 0, 2, 0})),
              ElementsAre("step 0 (dynslice): device 1 has offset [0, -4], outside the array's shape [4, 4]"));
  EXPECT_THAT(
      find_faults(with_corners(sample("dynslice"), {0, 0, 0, 0, 2, 0, INT64_MAX, INT64_MIN})),
      ElementsAre("step 0 (dynslice): device 3 has offset [9223372036854775807, -9223372036854775808], outside the "
                  "array's shape [4, 4]"));
}

TEST(VerifyOffsets, OfTilesThatDoNotDivideTheArray) {
  Plan plan = sample("exchange");
  const auto with_local = [&](Shape local) {
    plan.steps[0].after = Placement({4, 4}, local, std::vector<std::int64_t>(8));
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

TEST(VerifyOffsets, OfAnotherArrayOrTooFewDevices) {
  Plan plan = sample("exchange");
  plan.steps[0].after = Placement({8, 2}, {2, 2}, std::vector<std::int64_t>(8));
  const auto fault = ElementsAre("step 0 (exchange): the boxes after it do not cover the same array on 4 devices");
  EXPECT_THAT(find_faults(plan), fault);
  plan.steps[0].after = Placement({4, 4}, {2, 2}, std::vector<std::int64_t>(6));
  EXPECT_THAT(find_faults(plan), fault);
}

// --- Groups.

TEST(VerifyGroups, MissADevice) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {1}})),
              ElementsAre("step 0 (allgather): device 3 is in no group"));
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {})),
              ElementsAre("step 0 (allgather): device 0 is in no group"));
}

TEST(VerifyGroups, NameADeviceTwice) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {1, 2}})),
              ElementsAre("step 0 (allgather): device 2 is in two groups"));
  EXPECT_THAT(find_faults(with_groups(sample("alltoall"), {{0, 0}, {1, 3}})),
              ElementsAre("step 0 (alltoall): device 0 is in two groups"));
}

TEST(VerifyGroups, NameADeviceThatIsNotThere) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {1, 4}})),
              ElementsAre("step 0 (allgather): there is no device 4"));
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {INT64_MIN, 3}})),
              ElementsAre("step 0 (allgather): there is no device -9223372036854775808"));
  EXPECT_THAT(find_faults(with_groups(sample("exchange"), {{0, INT64_MAX}})),
              ElementsAre("step 0 (exchange): there is no device 9223372036854775807"));
}

TEST(VerifyGroups, WithoutMembers) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2}, {}, {1, 3}})),
              ElementsAre("step 0 (allgather): a group without members"));
}

TEST(VerifyGroups, OfAnotherSizeThanTheMovesNeed) {
  EXPECT_THAT(find_faults(with_groups(sample("allgather"), {{0, 2, 1}, {3}})),
              ElementsAre("step 0 (allgather): the group of device 0 has 3 members, and its moves need 2"));
  EXPECT_THAT(find_faults(with_groups(sample("wide alltoall"), {{0, 2}, {1, 3}})),
              ElementsAre("step 0 (alltoall): the group of device 0 has 2 members, and its moves need 4"));
}

TEST(VerifyGroups, ThatDoNotConnectWhatIsNeeded) {
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

TEST(VerifyGroups, ListAtMostFourBoxes) {
  const Mesh pairs = parse_mesh("a=8,b=2");
  const DistributedType source = parse_type("[1{a}8, 1{b}2]", pairs);
  const DistributedType target = parse_type("[8, 1{b}2]", pairs);
  Step step = test::collective_step(StepOp::allgather, {{0, -1, 8}}, {pairs.whole(0)}, source, target);
  Groups groups = step.groups.list(pairs);
  std::swap(groups[0][7], groups[1][7]);
  step.groups = DeviceGroups(groups);
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step}), 1),
              ElementsAre("step 0 (allgather): device 0 lacks [7:8, 0:1] of its box [0:8, 0:1]; its group held [0:1, "
                          "0:1], [1:2, 0:1], [2:3, 0:1], [3:4, 0:1] and 4 more"));
}

// Each group by itself could do it by sending one piece to both: that is no alltoall.
TEST(VerifyGroups, OfAnAlltoallThatGivesOnePieceToTwo) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4, 4]", mesh);
  const DistributedType target = parse_type("[4, 2{b}4]", mesh);
  const Plan plan = test::finish_plan(
      source, target, {test::collective_step(StepOp::alltoall, {{0, 1, 2}}, {mesh.whole(0)}, source, target)});
  EXPECT_THAT(
      find_faults(plan),
      ElementsAre("step 0 (alltoall): devices 0 and 2 both get [0:4, 0:2], and an alltoall gives each piece to one",
                  "step 0 (alltoall): devices 1 and 3 both get [0:4, 2:4], and an alltoall gives each piece to one"));
}

TEST(VerifyGroups, OfAnAlltoallThatIsAPermutation) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2{a}4, 2{b}4]", mesh);
  const DistributedType target = parse_type("[2{b}4, 2{a}4]", mesh);
  const Plan plan = test::finish_plan(source, target,
                                      {test::collective_step(StepOp::alltoall, {{0, 1, 2}, {1, 0, 2}},
                                                             {mesh.whole(0), mesh.whole(1)}, source, target)});
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (alltoall): device 0 sends device 0 4 elements, and an alltoall sends 1 to each",
                          "step 0 (alltoall): device 0 sends device 1 0 elements, and an alltoall sends 1 to each",
                          "step 0 (alltoall): device 0 sends device 2 0 elements, and an alltoall sends 1 to each",
                          "step 0 (alltoall): device 0 sends device 3 0 elements, and an alltoall sends 1 to each"));
}

TEST(VerifyGroups, OfAnExchangeThatTransfersDoNotConnect) {
  EXPECT_THAT(find_faults(with_groups(sample("exchange"), {{0, 1}, {2, 3}})),
              ElementsAre("step 0 (exchange): transfers connect devices of different groups"));
  EXPECT_THAT(find_faults(with_groups(sample("exchange of a scalar"), {{0, 1}, {2}, {3}})),
              ElementsAre("step 0 (exchange): devices 0 and 1 share a group, and no transfers connect them"));
}

// --- Shapes and moves.

TEST(VerifyShapes, LocalInThatDevicesDoNotHold) {
  Plan plan = sample("alltoall");
  plan.steps[0].local_in = {4, 2};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (alltoall): local_in is [4, 2], and the devices hold [2, 4]"));
  plan.steps[0].local_in = {INT64_MAX, INT64_MAX};
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (alltoall): local_in is [9223372036854775807, 9223372036854775807], and the devices "
                          "hold [2, 4]"));
}

TEST(VerifyShapes, LocalOutThatMovesDoNotLeadTo) {
  Plan plan = sample("allgather");
  plan.steps[0].after = Placement(parse_type("[4, 4]", plan.mesh()));
  EXPECT_THAT(find_faults(plan, 3),
              ElementsAre("step 0 (allgather): its moves lead to local shape [2, 4], and local_out is [4, 4]",
                          "step 0 (allgather): device 0 lacks [2:4, 0:4] of its box [0:4, 0:4]; its group held [0:1, "
                          "0:4], [1:2, 0:4]",
                          "step 0 (allgather): device 2 lacks [2:4, 0:4] of its box [0:4, 0:4]; its group held [0:1, "
                          "0:4], [1:2, 0:4]"));
}

TEST(VerifyShapes, MovesAlongAnotherDimensionOrByAnotherFactor) {
  Plan plan = sample("dynslice");
  plan.steps[0].moves = {{-1, 1, 2}};
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (dynslice): its moves lead to local shape [4, 2], and local_out is [2, 4]"));
  plan.steps[0].moves = {{-1, 0, 4}};
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (dynslice): its moves lead to local shape [1, 4], and local_out is [2, 4]"));
  plan.steps[0].moves = {};
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (dynslice): its moves lead to local shape [4, 4], and local_out is [2, 4]"));
}

TEST(VerifyShapes, MovesThatDoNotDivide) {
  Plan plan = sample("dynslice");
  plan.steps[0].moves = {{-1, 0, 3}};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (dynslice): local size 4 of dimension 0 does not divide by 3"));
}

TEST(VerifyShapes, MovesOfAnotherKind) {
  const auto faults_with = [](const char* name, Move move) {
    Plan plan = sample(name);
    plan.steps[0].moves = {move};
    return find_faults(plan, 1);
  };
  const char* dynslice = "step 0 (dynslice): a move that does not fit its kind";
  EXPECT_THAT(faults_with("dynslice", {0, -1, 2}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", {1, 0, 2}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", {-1, 2, 2}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", {-1, 0, 0}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("dynslice", {-1, 0, -2}), ElementsAre(dynslice));
  EXPECT_THAT(faults_with("allgather", {0, 1, 2}),
              ElementsAre("step 0 (allgather): a move that does not fit its kind"));
  EXPECT_THAT(faults_with("alltoall", {0, -1, 2}), ElementsAre("step 0 (alltoall): a move that does not fit its kind"));
}

TEST(VerifyShapes, MovesBeyond63Bits) {
  Plan plan = sample("allgather");
  plan.steps[0].moves = {{0, -1, INT64_MAX}, {0, -1, 2}};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (allgather): a move by 2 does not fit in 63 bits"));
  plan.steps[0].moves = {{0, -1, INT64_MAX}, {1, -1, INT64_MAX / 4}};
  EXPECT_THAT(find_faults(plan, 2),
              ElementsAre("step 0 (allgather): its moves lead to local shape [9223372036854775807, "
                          "9223372036854775804], and local_out is [2, 4]",
                          "step 0 (allgather): the group of device 0 has 2 members, and its moves need "
                          "9223372036854775807"));
}

// --- Permutations.

TEST(VerifyAllpermute, ThatIsNoBijection) {
  Plan plan = sample("allpermute");
  plan.steps[0].pairs = {{0, 0}, {2, 1}, {0, 2}, {3, 3}};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (allpermute): device 0 sends its tile twice"));
  plan.steps[0].pairs = {{0, 0}, {2, 1}, {1, 0}, {3, 3}};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (allpermute): device 0 is sent two tiles"));
  plan.steps[0].pairs = {{0, 0}, {2, 1}, {1, 2}};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (allpermute): 3 pairs for 4 devices"));
}

TEST(VerifyAllpermute, ThatSendsTheWrongTile) {
  Plan plan = sample("allpermute");
  plan.steps[0].pairs = {{0, 0}, {1, 1}, {2, 2}, {3, 3}};
  EXPECT_THAT(
      find_faults(plan),
      ElementsAre("step 0 (allpermute): device 1 lacks [2:4, 0:4] of its box [2:4, 0:4]; device 1 held [0:2, 0:4]",
                  "step 0 (allpermute): device 2 lacks [0:2, 0:4] of its box [0:2, 0:4]; device 2 held [2:4, 0:4]"));
}

TEST(VerifyAllpermute, WithADeviceThatIsNotThere) {
  Plan plan = sample("allpermute");
  plan.steps[0].pairs[2] = {1, 4};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (allpermute): there is no device 4"));
  plan.steps[0].pairs[2] = {-1, 2};
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (allpermute): there is no device -1"));
}

TEST(VerifyAllpermute, ToAnotherShape) {
  Plan plan = sample("allpermute");
  plan.steps[0].after = Placement(parse_type("[4, 2{a}4]", plan.mesh()));
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (allpermute): a permutation keeps the local shape, and [4, 2] is not [2, 4]"));
}

// --- Exchanges. Device 0 of the sample holds row 0 and ends with rows and columns 0 and 1.

TEST(VerifyExchange, WithATransferMissing) {
  Plan plan = sample("exchange");
  plan.steps[0].transfers.erase(plan.steps[0].transfers.begin());
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (exchange): device 0 lacks [1:2, 0:2] of its box [0:2, 0:2]; it held or was sent "
                          "[0:1, 0:4]"));
}

TEST(VerifyExchange, WithATransferOfWhatTheSenderDoesNotHold) {
  Plan plan = sample("exchange");
  plan.steps[0].transfers[0].from = 3;
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 3 sends [1:2, 0:2], and it held [3:4, 0:4]"));
}

TEST(VerifyExchange, WithATransferToTheWrongDevice) {
  Plan plan = sample("exchange");
  plan.steps[0].transfers[0].to = 1;
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (exchange): device 1 is sent [1:2, 0:2], which is not in its box [0:2, 2:4]",
                          "step 0 (exchange): device 0 lacks [1:2, 0:2] of its box [0:2, 0:2]; it held or was sent "
                          "[0:1, 0:4]"));
}

TEST(VerifyExchange, WithATransferToItself) {
  Plan plan = sample("exchange");
  plan.steps[0].transfers.push_back({0, 0, {{0, 0}, {1, 2}}});
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): device 0 sends to itself"));
}

TEST(VerifyExchange, WithATransferThatIsNoBox) {
  const auto faults_with = [](Box box) {
    Plan plan = sample("exchange");
    plan.steps[0].transfers[0].box = std::move(box);
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

TEST(VerifyExchange, WithADeviceThatIsNotThere) {
  Plan plan = sample("exchange");
  plan.steps[0].transfers[0].to = 4;
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): there is no device 4"));
}

TEST(VerifyExchange, ThatSendsMoreThanFits) {
  const Mesh mesh = parse_mesh("a=2");
  const DistributedType type = parse_type("[9223372036854775807]", mesh);
  Plan plan = test::finish_plan(type, type, {test::exchange_step(Placement(type), Placement(type))});
  const Box whole{{0}, {INT64_MAX}};
  plan.steps[0].transfers = {{0, 1, whole}, {0, 1, whole}, {0, 1, whole}};
  plan.steps[0].groups = DeviceGroups(Groups{{0, 1}});
  plan.cost.model = "volume";
  plan.cost.total = plan.steps[0].cost = 1;
  plan.cost.lower_bound = 0;
  plan.cost.optimal = false;
  EXPECT_THAT(find_faults(plan), ElementsAre("step 0 (exchange): it costs 9223372036854775807, not 1"));
}

// --- The plan as a whole.

TEST(VerifyPlan, ThatEndsElsewhere) {
  Plan plan = sample("dynslice");
  plan.target = parse_type("[2{b}4, 4]", plan.mesh());
  plan.cost.floor = received_floor(plan.source, plan.target);
  EXPECT_THAT(find_faults(plan),
              ElementsAre("after the last step device 1 holds [0:2, 0:4], and its target is [2:4, 0:4]",
                          "after the last step device 2 holds [2:4, 0:4], and its target is [0:2, 0:4]"));
  plan.target = parse_type("[4, 2{b}4]", plan.mesh());
  EXPECT_THAT(find_faults(plan), ElementsAre("the plan ends with local shape [2, 4], and the target has [4, 2]"));
}

TEST(VerifyPlan, OfDifferentArrays) {
  Plan plan = sample("dynslice");
  plan.target = parse_type("[2{a}4]", plan.mesh());
  EXPECT_THAT(find_faults(plan), ElementsAre("source and target have different global shapes: [4, 4] and [4]"));
  plan.target = parse_type("[2{a}4, 4]", parse_mesh("a=2"));
  EXPECT_THAT(find_faults(plan), ElementsAre("source and target are on different meshes"));
}

TEST(VerifyPlan, WithWrongSizes) {
  const auto faults_with = [](auto change) {
    Plan plan = sample("allgather");
    change(plan.memory);
    return find_faults(plan);
  };
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.source = 5; }), ElementsAre("memory: source is 4, not 5"));
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.target = 4; }), ElementsAre("memory: target is 8, not 4"));
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.peak = 4; }), ElementsAre("memory: peak is 8, not 4"));
  EXPECT_THAT(faults_with([](PlanMemory& memory) { memory.bound = 1; }), IsEmpty());
}

TEST(VerifyPlan, WithWrongCosts) {
  const auto faults_with = [](auto change) {
    Plan plan = sample("allgather");
    change(plan);
    return find_faults(plan);
  };
  EXPECT_THAT(faults_with([](Plan& plan) { plan.steps[0].cost = plan.cost.total = 7; }),
              ElementsAre("step 0 (allgather): it costs 8, not 7"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.total = 9; }), ElementsAre("cost: the steps sum up to 8, not 9"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.lower_bound = 9; }),
              ElementsAre("cost: the lower bound 9 is above the total 8"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.optimal = true; }),
              ElementsAre("cost: called optimal, with a lower bound of 4 below 8"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.floor = 5; }), ElementsAre("cost: the floor is 4, not 5"));
  EXPECT_THAT(faults_with([](Plan& plan) { plan.cost.model = "volume"; }),
              ElementsAre("step 0 (allgather): it costs 4, not 8"));
}

TEST(VerifyPlan, WithCostsBeyond63Bits) {
  Plan plan = sample("dynslice");
  plan.cost.model = "my machine";
  plan.cost.optimal = false;
  plan.steps[0].cost = INT64_MAX;
  plan.steps.push_back(test::collective_step(StepOp::dynslice, {{-1, 0, 1}}, {}, plan.target, plan.target));
  plan.steps[1].cost = 1;
  plan.cost.total = INT64_MAX;
  EXPECT_THAT(find_faults(plan), ElementsAre("cost: the sum of the steps does not fit in 63 bits"));
}

TEST(VerifyPlan, NamesTheStepAtFault) {
  const Mesh mesh = parse_mesh("a=2");
  Plan plan = test::gather_slice_plan(parse_type("[2{a}4, 4]", mesh), parse_type("[4, 2{a}4]", mesh));
  plan.steps[1].cost = 3;
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 1 (dynslice): it costs 0, not 3", "cost: the steps sum up to 19, not 16"));
}

TEST(VerifyPlan, StopsWhenItHasFoundEnough) {
  const Mesh mesh = parse_mesh("a=16");
  Plan plan = test::gather_slice_plan(parse_type("[1{a}16]", mesh), parse_type("[16]", mesh));
  plan.target = plan.source;
  plan.steps[0].after = Placement({16}, {16}, std::vector<std::int64_t>(16));
  plan.steps[0].groups = DeviceGroups(Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}, {12, 13}, {14, 15}});
  plan.steps[0].moves = {{0, -1, 2}};
  EXPECT_EQ(find_faults(plan).size(), 10U);
  EXPECT_EQ(find_faults(plan, 3).size(), 3U);
  EXPECT_EQ(find_faults(plan, 1).size(), 1U);
}

// Numbers at the ends of 64 bits, everywhere a plan's text may have them.
TEST(VerifyPlan, ReadFromTextWithHugeNumbers) {
  const std::string text =
      R"({"mesh": {"a": 2}, "source": "[4611686018427387904{a}9223372036854775807]", "target": "[1]", "planner": "",)";
  EXPECT_THROW(parse_plan({"plan", text}), InputError);
  const Plan plan = parse_plan({"plan",
                                R"({"mesh": {"a": 2}, "source": "[2{a}4]", "target": "[4]", "planner": "x",
           "cost": {"model": "paper", "total": 9223372036854775807, "lower_bound": 9223372036854775807,
                    "floor": 9223372036854775807, "optimal": true},
           "memory": {"source": 9223372036854775807, "target": 9223372036854775807, "bound": 9223372036854775807,
                      "peak": 9223372036854775807},
           "steps": [{"op": "allgather", "moves": [{"dim": 0, "factor": 9223372036854775807}], "groups": [[0, 1]],
                      "local_in": [9223372036854775807], "local_out": [4], "cost": 9223372036854775807,
                      "offsets": [[0], [0]]}]})"});
  EXPECT_THAT(find_faults(plan),
              ElementsAre("step 0 (allgather): local_in is [9223372036854775807], and the devices hold [2]",
                          "step 0 (allgather): a move by 9223372036854775807 does not fit in 63 bits"));
}

}  // namespace
}  // namespace retile
