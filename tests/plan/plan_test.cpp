#include "retile/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::ElementsAre;

using Groups = std::vector<std::vector<Device>>;

TEST(StepOp, HasItsNameInThePlanFormat) {
  EXPECT_STREQ(name_of(StepOp::dynslice), "dynslice");
  EXPECT_STREQ(name_of(StepOp::alltoall), "alltoall");
  EXPECT_STREQ(name_of(StepOp::allgather), "allgather");
  EXPECT_STREQ(name_of(StepOp::allpermute), "allpermute");
  EXPECT_STREQ(name_of(StepOp::exchange), "exchange");
}

TEST(Step, PrintsItsMoves) {
  const auto samples = test::sample_plans();
  const auto printed = [&](const char* name) { return to_string(test::sample_plan(samples, name).steps.front()); };
  EXPECT_EQ(printed("dynslice"), "dynslice(0; 2)");
  EXPECT_EQ(printed("wide dynslice"), "dynslice(0; 2, 1; 2)");
  EXPECT_EQ(printed("allgather"), "allgather(0; 2)");
  EXPECT_EQ(printed("alltoall"), "alltoall(0 -> 1; 2)");
  EXPECT_EQ(printed("wide alltoall"), "alltoall(0 -> 2; 2, 1 -> 2; 2)");
  EXPECT_EQ(printed("allpermute"), "allpermute");
  EXPECT_EQ(printed("exchange"), "exchange");
}

TEST(DeviceGroups, AreEmptyByDefault) {
  EXPECT_FALSE(DeviceGroups().is_symbolic());
  EXPECT_EQ(DeviceGroups().list(parse_mesh("a=2")), Groups());
}

TEST(DeviceGroups, ListedOnesStayAsTheyAre) {
  const Groups groups{{3, 1}, {0, 2}};
  EXPECT_FALSE(DeviceGroups(groups).is_symbolic());
  EXPECT_EQ(DeviceGroups(groups).list(parse_mesh("a=4")), groups);
}

TEST(DeviceGroups, AlongAnAxisHoldDevicesThatDifferOnlyThere) {
  const Mesh mesh = parse_mesh("a=2,b=3");
  const DeviceGroups along_a = DeviceGroups::along({mesh.whole(0)});
  EXPECT_TRUE(along_a.is_symbolic());
  EXPECT_EQ(along_a.list(mesh), (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(DeviceGroups::along({mesh.whole(1)}).list(mesh), (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(DeviceGroups::along({mesh.whole(1), mesh.whole(0)}).list(mesh), (Groups{{0, 1, 2, 3, 4, 5}}));
}

TEST(DeviceGroups, AlongAPartOfAnAxis) {
  const Mesh mesh = parse_mesh("a=6");  // the coordinate is 3 * (a:(1)2) + (a:(2)3)
  EXPECT_EQ(DeviceGroups::along({{0, 1, 2}}).list(mesh), (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(DeviceGroups::along({{0, 2, 3}}).list(mesh), (Groups{{0, 1, 2}, {3, 4, 5}}));
}

TEST(DeviceGroups, AlongAnAxisOfSizeOneHoldOneDeviceEach) {
  const Mesh mesh = parse_mesh("a=1,b=2");
  EXPECT_EQ(DeviceGroups::along({mesh.whole(0)}).list(mesh), (Groups{{0}, {1}}));
}

TEST(DeviceGroups, PutEveryDeviceInExactlyOneGroupOfEqualSize) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(12)) {
    for (const AxisPart& part : mesh.prime_parts()) {
      std::vector<int> seen(static_cast<std::size_t>(mesh.device_count()));
      for (const std::vector<Device>& group : DeviceGroups::along({part}).list(mesh)) {
        EXPECT_EQ(static_cast<std::int64_t>(group.size()), part.size);
        for (const Device device : group) {
          ++seen[static_cast<std::size_t>(device)];
          EXPECT_EQ((device - group.front()) % mesh.stride(part), 0);
        }
      }
      EXPECT_THAT(seen, ::testing::Each(1));
      ++covered;
    }
  }
  EXPECT_EQ(covered, 61);
}

TEST(OrderGroups, SortsMembersByTheCornersTheyHeldAndGroupsBySmallestMember) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const Placement before(parse_type("[1{a,b}4]", mesh));  // corners 0, 2, 1, 3
  EXPECT_EQ(order_groups({{0, 1, 2, 3}}, before), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(order_groups({{3, 2}, {1, 0}}, before), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(order_groups({{3, 0}, {1, 2}}, before), (Groups{{0, 3}, {2, 1}}));
}

TEST(OrderGroups, SortsCornersRowMajorAndEqualOnesByDevice) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  EXPECT_EQ(order_groups({{3, 2, 1, 0}}, Placement(parse_type("[2{b}4, 2{a}4]", mesh))), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(order_groups({{3, 2, 1, 0}}, Placement(parse_type("[2{b}4]", mesh))), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(order_groups({{3, 2, 1, 0}}, Placement(parse_type("[4]", mesh))), (Groups{{0, 1, 2, 3}}));
}

// A plan that somebody wrote can be printed whatever is wrong with it.
TEST(OrderGroups, TakesEmptyGroupsAndUnknownDevices) {
  const Placement before(parse_type("[2{a}4]", parse_mesh("a=2")));
  EXPECT_EQ(order_groups({{1, 7, -1, 0}, {}}, before), (Groups{{}, {-1, 7, 0, 1}}));
}

TEST(Plan, KnowsWhatDevicesHoldBeforeEachStep) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType first = parse_type("[2{a}4, 4]", mesh);
  const DistributedType second = parse_type("[2{b}4, 4]", mesh);
  const Plan plan = test::finish_plan(first, second, {test::permute_step(Placement(first), Placement(second))});
  EXPECT_EQ(plan.before(0), Placement(first));
  EXPECT_EQ(plan.before(1), Placement(second));
  EXPECT_EQ(plan.mesh(), mesh);
  EXPECT_THAT(plan.steps.front().local_out(), ElementsAre(2, 4));
}

}  // namespace
}  // namespace retile
