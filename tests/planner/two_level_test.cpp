#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "retile/costs/traffic.h"
#include "retile/plan/text.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/machines.h"
#include "tests/support/problems.h"

namespace retile {
namespace {

using test::problem_of;
using testing::ElementsAre;

// So many hosts of four devices each. Bytes take almost no time, messages between hosts do.
Machine hosts_of_four(int hosts) {
  Machine machine;
  for (int host = 0; host < hosts; ++host) {
    const Device first = host * 4;
    machine.hosts.push_back({first, first + 1, first + 2, first + 3});
  }
  machine.links.assign(machine.hosts.size(), {1e12, 1e12});
  machine.link_latency = 1e-3;
  machine.inside_rate = 1e12;
  machine.inside_latency = 1e-6;
  return machine;
}

Plan plan_on(const Machine& machine, const Problem& problem, PlannerKind planner = PlannerKind::automatic) {
  PlanOptions options = on_machine(machine);
  options.planner = planner;
  Plan plan = make_plan(problem, options);
  EXPECT_THAT(find_faults(plan), ::testing::IsEmpty()) << to_string(plan);
  return plan;
}

// By step: the most messages that a device sends to other hosts, or receives from them.
std::vector<std::int64_t> crossing_messages(const Plan& plan, const Machine& machine) {
  const std::vector<std::int64_t> host_of = machine.host_numbers();
  std::vector<std::int64_t> messages;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    const StageTraffic traffic =
        find_cell_traffic(plan.movement.before(i), plan.steps()[i].after, {machine.hosts, host_of});
    std::int64_t most = 0;
    for (const DeviceTraffic& device : traffic.devices) most = std::max(most, device.crossing_messages);
    messages.push_back(most);
  }
  return messages;
}

TEST(TwoLevel, exchanges_across_hosts_and_inside_them) {
  const Machine machine = hosts_of_four(4);
  const Problem problem = problem_of("x=4,y=4", "[4{y,x}64, 64]", "[64, 4{y,x}64]");
  const Plan plan = plan_on(machine, problem);
  EXPECT_EQ(plan.planner, "two-level");
  // A device sends to the four devices of one host, and not to all twelve.
  EXPECT_THAT(crossing_messages(plan, machine), ElementsAre(4, 0));
  EXPECT_THAT(crossing_messages(plan_on(machine, problem, PlannerKind::direct), machine), ElementsAre(12));
  EXPECT_EQ(plan.memory.peak, plan.memory.source);
}

TEST(TwoLevel, gathers_cross_last) {
  const Machine machine = hosts_of_four(4);
  const Plan plan = plan_on(machine, problem_of("x=4,y=4", "[4{y,x}64]", "[64]"));
  EXPECT_EQ(plan.planner, "two-level");
  EXPECT_THAT(crossing_messages(plan, machine), ElementsAre(0, 3));
}

// Hosts have a block at one end alone, of which each device takes a part: that exchange stays inside.
TEST(TwoLevel, has_either_order) {
  const Machine machine = hosts_of_four(4);
  const auto crossing = [&](const char* source, const char* target) {
    return crossing_messages(plan_on(machine, problem_of("x=4,y=4", source, target), PlannerKind::two_level), machine);
  };
  EXPECT_THAT(crossing("[4{y,x}64, 64]", "[64, 4{x,y}64]"), ElementsAre(0, 3));
  EXPECT_THAT(crossing("[4{x,y}64, 64]", "[64, 4{y,x}64]"), ElementsAre(3, 0));
}

// What a device needs for the exchange across hosts it has already.
TEST(TwoLevel, slices_what_all_devices_of_a_host_hold) {
  const Machine machine = hosts_of_four(4);
  const Plan plan = plan_on(machine, problem_of("x=4,y=4", "[16{x}64, 64]", "[64, 4{y,x}64]"), PlannerKind::two_level);
  ASSERT_EQ(plan.steps().size(), 2U);
  EXPECT_EQ(op_of(plan.steps()[0]), StepOp::dynslice);
  EXPECT_EQ(op_of(plan.steps()[1]), StepOp::exchange);
}

TEST(TwoLevel, takes_one_exchange_where_bytes_count) {
  Machine machine = hosts_of_four(4);
  machine.link_latency = machine.inside_latency = 0;
  for (LinkRates& link : machine.links) link = {1e8, 1e8};
  EXPECT_EQ(plan_on(machine, problem_of("x=4,y=4", "[4{y,x}64, 64]", "[64, 4{y,x}64]")).steps().size(), 1U);
}

TEST(TwoLevel, knows_hosts_whose_devices_are_not_in_a_row) {
  Machine machine = hosts_of_four(4);
  machine.hosts = {{0, 4, 8, 12}, {1, 5, 9, 13}, {2, 6, 10, 14}, {3, 7, 11, 15}};
  const Problem problem = problem_of("x=4,y=4", "[4{x,y}64, 64]", "[64, 4{x,y}64]");
  const Plan plan = plan_on(machine, problem);
  EXPECT_EQ(plan.planner, "two-level");
  EXPECT_THAT(crossing_messages(plan, machine), ElementsAre(4, 0));
}

TEST(TwoLevel, is_one_exchange_where_hosts_have_no_blocks) {
  const auto steps = [](const Machine& machine, const Problem& problem) {
    return plan_on(machine, problem, PlannerKind::two_level).steps().size();
  };
  Machine machine = hosts_of_four(4);
  // Every host has each fourth tile.
  EXPECT_EQ(steps(machine, problem_of("x=4,y=4", "[4{x,y}64, 64]", "[64, 4{x,y}64]")), 1U);
  // Tiles of a diagonal, whose block has others beside them.
  machine.links.resize(2);
  machine.hosts = {{0, 3}, {1, 2}};
  EXPECT_EQ(steps(machine, problem_of("x=2,y=2", "[2{x}4, 2{y}4]", "[1{x,y}4, 4]")), 1U);
  // Two of three tiles, of which one is on both hosts.
  machine.hosts = {{0, 1, 2}, {3, 4, 5}};
  EXPECT_EQ(steps(machine, problem_of("a=3,b=2", "[2{a}6, 6]", "[6, 2{a}6]")), 1U);
}

TEST(TwoLevel, plans_are_right_whatever_the_hosts) {
  test::RandomProblems random(41);
  test::RandomMachines machines;
  const std::vector<const char*> meshes{"a=2,b=2,c=2", "a=4,b=2", "a=2,b=6", "a=3,b=3", "a=4,b=4"};
  int in_two = 0;
  for (int i = 0; i < (test::is_sweep() ? 5000 : 500); ++i) {
    const Mesh mesh = parse_mesh(random.pick(meshes));
    const Problem problem = random.problem(mesh, {144, 144});
    in_two += plan_on(machines.next(mesh.device_count()), problem, PlannerKind::two_level).steps().size() > 1 ? 1 : 0;
  }
  EXPECT_GT(in_two, 50);
}

TEST(TwoLevelFault, without_a_machine) {
  PlanOptions options;
  options.planner = PlannerKind::two_level;
  EXPECT_EQ(test::diagnostic_of([&] { return make_plan(problem_of("x=4", "[2{x}8]", "[8]"), options); }),
            "error: plans in two levels are for a machine with hosts\n"
            "hint: add --machine FILE (docs/machines.md)\n");
}

}  // namespace
}  // namespace retile
