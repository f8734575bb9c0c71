// Groups, pairs and transfers from boxes: any even dealing has them.
#include "retile/plan/lists.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

// Every tile of the grid equally often, in random order.
TileTable random_table(RandomProblems& random, const Shape& grid, std::int64_t devices) {
  TileTable table{grid, std::vector<std::int32_t>(static_cast<std::size_t>(devices) * grid.size())};
  const std::vector<std::int64_t> order = random.permutation(static_cast<std::size_t>(devices));
  for (std::size_t device = 0; device < order.size(); ++device) {
    std::int64_t number = order[device] % product(grid);
    for (std::size_t i = grid.size(); i-- > 0; number /= grid[i]) {
      table.tiles[device * grid.size() + i] = static_cast<std::int32_t>(number % grid[i]);
    }
  }
  return table;
}

// A tile of the finer grid for every device, inside the one it has, each equally often; who gets which is random.
TileTable random_dealing(RandomProblems& random, const TileTable& within, const Shape& finer) {
  const std::size_t rank = finer.size();
  std::map<std::vector<std::int32_t>, std::int64_t> served;  // devices per tile
  TileTable dealt{finer, within.tiles};
  for (const std::int64_t device : random.permutation(within.device_count())) {
    std::int32_t* tile = dealt.tiles.data() + static_cast<std::size_t>(device) * rank;
    std::int64_t choice = served[std::vector<std::int32_t>(tile, tile + rank)]++;
    for (std::size_t i = rank; i-- > 0;) {
      const std::int64_t inside = finer[i] / within.grid[i];
      tile[i] = static_cast<std::int32_t>(tile[i] * inside + choice % inside);
      choice /= inside;
    }
  }
  return dealt;
}

void expect_partition(const Groups& groups, std::int64_t devices) {
  std::vector<Device> all;
  for (const std::vector<Device>& group : groups) all.insert(all.end(), group.begin(), group.end());
  std::sort(all.begin(), all.end());
  std::vector<Device> expected(static_cast<std::size_t>(devices));
  std::iota(expected.begin(), expected.end(), Device{0});
  EXPECT_EQ(all, expected);
}

Box bounding_box(const Box& a, const Box& b) {
  Box result = a;
  for (std::size_t i = 0; i < a.lo.size(); ++i) {
    result.lo[i] = std::min(a.lo[i], b.lo[i]);
    result.hi[i] = std::max(a.hi[i], b.hi[i]);
  }
  return result;
}

// The members' boxes are disjoint and fill their bounding box, which is returned.
Box expect_fills_a_box(const Placement& placement, const std::vector<Device>& group) {
  Box hull = placement.box(group.front());
  std::int64_t total = 0;
  std::set<Shape> corners;
  for (const Device device : group) {
    hull = bounding_box(hull, placement.box(device));
    total += volume(placement.box(device));
    EXPECT_TRUE(corners.insert(placement.offset(device)).second) << "replicas are in different groups";
  }
  EXPECT_EQ(total, volume(hull));
  return hull;
}

struct Grids {
  Shape before;
  Shape common;  // what the members of a group make up together
  Shape after;
};

// Random grids of an alltoall: each prime of the group cuts one dimension before and one after, and no dimension has
// both kinds.
Grids random_alltoall_grids(RandomProblems& random, int rank, std::int64_t devices) {
  Grids grids{Shape(static_cast<std::size_t>(rank), 1), {}, {}};
  std::vector<bool> grows(static_cast<std::size_t>(rank));
  for (std::size_t i = 0; i < grows.size(); ++i) grows[i] = random.number(2) == 0;
  grows.front() = true;
  grows.back() = false;
  grids.common = grids.before;
  grids.after = grids.before;
  const auto any_of = [&](bool kind) {
    std::size_t i = random.number(grows.size());
    while (grows[i] != kind) i = random.number(grows.size());
    return i;
  };
  for (const std::int64_t prime : prime_factors(devices)) {
    const std::size_t use = random.number(3);
    if (use == 0) continue;  // replicas
    if (use == 1) {          // cuts that stay
      const std::size_t i = random.number(grows.size());
      grids.before[i] *= prime;
      grids.common[i] *= prime;
      grids.after[i] *= prime;
      continue;
    }
    grids.before[any_of(true)] *= prime;
    grids.after[any_of(false)] *= prime;
  }
  return grids;
}

void expect_alltoall_groups(const TileTable& before, const TileTable& after, const Grids& grids, const Shape& global) {
  const Groups groups = alltoall_groups(before, after);
  const Placement held = placement_of(global, before);
  const Placement got = placement_of(global, after);
  expect_partition(groups, static_cast<std::int64_t>(before.device_count()));
  EXPECT_EQ(groups, order_groups(groups, held));
  for (const std::vector<Device>& group : groups) {
    ASSERT_EQ(static_cast<std::int64_t>(group.size()), product(grids.before) / product(grids.common));
    EXPECT_EQ(expect_fills_a_box(held, group), expect_fills_a_box(got, group));
  }
}

// König's theorem: every even dealing between two grids splits into groups that make up one box before and after.
TEST(Lists, every_even_dealing_has_alltoall_groups) {
  RandomProblems random(71);
  int covered = 0;
  for (const std::int64_t devices : {2, 4, 6, 8, 12, 16, 24, 30, 36, 48, 60, 64}) {
    for (int i = 0; i < 60; ++i) {
      const int rank = 2 + i % 3;
      const Grids grids = random_alltoall_grids(random, rank, devices);
      const TileTable before = random_table(random, grids.before, devices);
      const TileTable after = random_dealing(random, coarsen(before, grids.common), grids.after);
      expect_alltoall_groups(before, after, grids, Shape(static_cast<std::size_t>(rank), devices));
      ASSERT_FALSE(HasFailure()) << devices << " devices, " << to_string(grids.before) << to_string(grids.after);
      ++covered;
    }
  }
  EXPECT_EQ(covered, 720);
}

TEST(Lists, allgather_groups_hold_each_tile_once) {
  RandomProblems random(72);
  int covered = 0;
  for (const std::int64_t devices : {2, 4, 6, 8, 12, 24, 30, 36, 64}) {
    for (int i = 0; i < 60; ++i) {
      const Grids grids = random_alltoall_grids(random, 2 + i % 3, devices);
      const Shape global(grids.before.size(), devices);
      const TileTable before = random_table(random, grids.before, devices);
      const TileTable after = coarsen(before, grids.common);
      const Groups groups = allgather_groups(before, after);
      const Placement held = placement_of(global, before);
      expect_partition(groups, devices);
      EXPECT_EQ(groups, order_groups(groups, held));
      for (const std::vector<Device>& group : groups) {
        const Box hull = expect_fills_a_box(held, group);
        for (const Device device : group) EXPECT_EQ(hull, placement_of(global, after).box(device));
      }
      ASSERT_FALSE(HasFailure()) << devices << " devices, " << to_string(grids.before) << to_string(grids.common);
      ++covered;
    }
  }
  EXPECT_EQ(covered, 540);
}

// --- Pairs.

TEST(Lists, match_tiles_is_a_bijection_that_keeps_what_it_can) {
  RandomProblems random(73);
  for (int i = 0; i < 300; ++i) {
    const Shape grid = random.shape(1 + i % 3, {1, 2, 3});
    const std::int64_t devices = product(grid) * static_cast<std::int64_t>(1 + random.number(3));
    const Shape global(grid.size(), 6);
    const Placement before = placement_of(global, random_table(random, grid, devices));
    const Placement after = placement_of(global, random_table(random, grid, devices));
    const std::vector<DevicePair> pairs = match_tiles(tile_table(before), tile_table(after));
    std::set<Device> sources;
    ASSERT_EQ(static_cast<std::int64_t>(pairs.size()), devices);
    for (std::size_t target = 0; target < pairs.size(); ++target) {
      EXPECT_EQ(pairs[target].target, static_cast<Device>(target));
      EXPECT_EQ(before.offset(pairs[target].source), after.offset(pairs[target].target));
      EXPECT_TRUE(sources.insert(pairs[target].source).second);
      const bool keeps = before.offset(pairs[target].target) == after.offset(pairs[target].target);
      EXPECT_EQ(pairs[target].source == pairs[target].target, keeps);
    }
  }
}

// --- Transfers.

TEST(Lists, balanced_transfers_bring_each_device_what_it_lacks_once) {
  RandomProblems random(74);
  for (int i = 0; i < 200; ++i) {
    const int rank = 1 + i % 3;
    const Shape from = random.shape(rank, {1, 2, 3});
    const Shape to = random.shape(rank, {1, 2, 3});
    const std::int64_t devices = std::lcm(product(from), product(to)) * static_cast<std::int64_t>(1 + random.number(2));
    const Shape global(static_cast<std::size_t>(rank), 6);
    const Placement before = placement_of(global, random_table(random, from, devices));
    const Placement after = placement_of(global, random_table(random, to, devices));
    std::vector<std::int64_t> received(static_cast<std::size_t>(devices));
    std::map<Device, int> sent;
    for (const Piece& transfer : balanced_pieces(before.global_shape(), tile_table(before), tile_table(after))) {
      EXPECT_NE(transfer.from, transfer.to);
      EXPECT_TRUE(contains(before.box(transfer.from), transfer.box));
      EXPECT_TRUE(contains(after.box(transfer.to), transfer.box));
      EXPECT_FALSE(intersect(before.box(transfer.to), transfer.box));
      received[static_cast<std::size_t>(transfer.to)] += volume(transfer.box);
      ++sent[transfer.from];
    }
    for (Device device = 0; device < devices; ++device) {
      const auto kept = intersect(before.box(device), after.box(device));
      EXPECT_EQ(received[static_cast<std::size_t>(device)], after.local_size() - (kept ? volume(*kept) : 0));
      for (Device other = 0; other < device; ++other) {
        if (before.offset(device) != before.offset(other)) continue;
        EXPECT_LE(std::abs(sent[device] - sent[other]), 1);
      }
    }
    ASSERT_FALSE(HasFailure()) << to_string(from) << " to " << to_string(to) << " on " << devices;
  }
}

// What a device sends is worked out by itself, and so is what another one receives.
TEST(Lists, of_an_exchange_between_grids_are_the_same_from_both_ends) {
  RandomProblems random(75);
  for (int i = 0; i < 200; ++i) {
    const int rank = 1 + i % 3;
    const Shape from = random.shape(rank, {1, 2, 3});
    const Shape to = random.shape(rank, {1, 2, 3});
    const std::int64_t devices = std::lcm(product(from), product(to)) * static_cast<std::int64_t>(1 + random.number(3));
    const GridExchange exchange(Shape(static_cast<std::size_t>(rank), 6), random_table(random, from, devices),
                                random_table(random, to, devices));
    std::map<std::pair<Device, Device>, Box> received;
    std::map<std::pair<Device, Device>, Box> sent;
    for (Device device = 0; device < devices; ++device) {
      exchange.visit_received(device, [&](const Piece& one) { received[{one.from, one.to}] = one.box; });
      exchange.visit_sent(device, [&](const Piece& one) { sent[{one.from, one.to}] = one.box; });
    }
    ASSERT_EQ(sent, received) << to_string(from) << " to " << to_string(to) << " on " << devices;
  }
}

// As a search through the devices finds them.
Groups connected(const std::vector<Piece>& transfers, std::int64_t devices) {
  std::vector<Device> component(static_cast<std::size_t>(devices));
  std::iota(component.begin(), component.end(), Device{0});
  for (bool changed = true; changed;) {
    changed = false;
    for (const Piece& transfer : transfers) {
      Device& from = component[static_cast<std::size_t>(transfer.from)];
      Device& to = component[static_cast<std::size_t>(transfer.to)];
      changed = changed || from != to;
      from = to = std::min(from, to);
    }
  }
  std::map<Device, std::vector<Device>> groups;
  for (Device device = 0; device < devices; ++device) {
    groups[component[static_cast<std::size_t>(device)]].push_back(device);
  }
  Groups listed;
  for (const auto& [first, members] : groups) listed.push_back(members);
  return listed;
}

TEST(Lists, exchange_groups_are_what_transfers_connect) {
  RandomProblems random(75);
  for (int i = 0; i < 200; ++i) {
    const std::int64_t devices = 2 + i % 11;
    const Placement before = placement_of({devices}, random_table(random, {devices}, devices));
    std::vector<Piece> transfers;
    for (std::size_t count = random.number(static_cast<std::size_t>(devices) + 2); count > 0; --count) {
      const auto from = static_cast<Device>(random.number(static_cast<std::size_t>(devices)));
      const auto to = static_cast<Device>(random.number(static_cast<std::size_t>(devices)));
      if (from != to) transfers.push_back({from, to, before.box(from)});
    }
    const Groups groups = exchange_groups(transfers, before);
    EXPECT_EQ(groups, order_groups(connected(transfers, devices), before));
  }
}

// --- The order of the plan format.

TEST(OrderGroups, sorts_members_by_the_corners_they_held_and_groups_by_smallest_member) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const Placement before(parse_type("[1{a,b}4]", mesh));  // corners 0, 2, 1, 3
  EXPECT_EQ(order_groups({{0, 1, 2, 3}}, before), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(order_groups({{3, 2}, {1, 0}}, before), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(order_groups({{3, 0}, {1, 2}}, before), (Groups{{0, 3}, {2, 1}}));
}

TEST(OrderGroups, sorts_corners_row_major_and_equal_ones_by_device) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  EXPECT_EQ(order_groups({{3, 2, 1, 0}}, Placement(parse_type("[2{b}4, 2{a}4]", mesh))), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(order_groups({{3, 2, 1, 0}}, Placement(parse_type("[2{b}4]", mesh))), (Groups{{0, 2, 1, 3}}));
  EXPECT_EQ(order_groups({{3, 2, 1, 0}}, Placement(parse_type("[4]", mesh))), (Groups{{0, 1, 2, 3}}));
}

// A plan that somebody wrote can be printed whatever is wrong with it.
TEST(OrderGroups, takes_empty_groups_and_unknown_devices) {
  const Placement before(parse_type("[2{a}4]", parse_mesh("a=2")));
  EXPECT_EQ(order_groups({{1, 7, -1, 0}, {}}, before), (Groups{{}, {-1, 7, 0, 1}}));
}

// --- Plans of many devices leave their lists to be worked out.

TEST(Lists, with_lists_completes_plans_without_them) {
  RandomProblems random(76);
  std::map<StepOp, int> steps;
  for (const char* text : {"a=8,b=8,c=8", "a=32,b=32", "a=9,b=9,c=9"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 12; ++i) {
      const std::int64_t size = mesh.axis(0).size == 9 ? 729 : 1024;
      const Problem problem = random.problem(mesh, Shape(static_cast<std::size_t>(1 + i % 3), size));
      for (const Planning& planning : {paper_planning(), wide_planning()}) {
        Plan plan = make_plan(problem, planning.options);
        for (const Step& step : plan.steps()) {
          EXPECT_EQ(is_listed(step.operation), op_of(step) == StepOp::dynslice) << describe(problem);
        }
        EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << planning.name << ": " << describe(problem);
        plan.movement = with_lists(plan.movement);
        EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << planning.name << ": " << describe(problem);
        for (const Step& step : plan.steps()) {
          EXPECT_TRUE(is_listed(step.operation));
          ++steps[op_of(step)];
        }
      }
    }
  }
  for (const StepOp op :
       {StepOp::dynslice, StepOp::alltoall, StepOp::allgather, StepOp::allpermute, StepOp::exchange}) {
    EXPECT_GT(steps[op], 0) << name_of(op);
  }
}

TEST(Lists, with_lists_changes_nothing_else) {
  const Problem problem = problem_of("a=8,b=8,c=8", "[8{a,b}512, 64{c}512]", "[512, 1{c,b,a}512]");
  const Plan plan = make_plan(problem, paper_planning().options);
  const Movement listed = with_lists(plan.movement);
  ASSERT_FALSE(plan.steps().empty());
  EXPECT_NE(listed.steps, plan.steps());
  EXPECT_EQ(without_lists(listed).steps, plan.steps());
  EXPECT_EQ(with_lists(listed).steps, listed.steps);
}

TEST(Lists, of_an_array_of_rank_zero_hold_every_device_alone) {
  const Placement scalar(parse_type("[]", parse_mesh("a=3")));
  const auto listed = [&](StepOperation operation) {
    Step step{std::move(operation), scalar};
    list_devices(step, scalar);
    return step.operation;
  };
  const Groups alone{{0}, {1}, {2}};
  EXPECT_EQ(listed(GatherStep{}), StepOperation(GatherStep{{}, alone}));
  EXPECT_EQ(listed(AllToAllStep{}), StepOperation(AllToAllStep{{}, alone}));
  EXPECT_EQ(listed(PermuteStep{}), StepOperation(PermuteStep{{{{0, 0}, {1, 1}, {2, 2}}}}));
  EXPECT_EQ(listed(ExchangeStep{}), StepOperation(ExchangeStep{std::vector<Piece>()}));
}

TEST(Lists, that_cannot_be_are_refused) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto list = [&](StepOperation operation, const char* before, const char* after) {
    Step step{std::move(operation), Placement(parse_type(after, mesh))};
    list_devices(step, Placement(parse_type(before, mesh)));
  };
  EXPECT_THROW(list(PermuteStep{}, "[2{a}4, 4]", "[4, 2{a}4]"), RuntimeError);
  EXPECT_THROW(list(AllToAllStep{{{0, 1, 2}}, {}}, "[2{a}4, 4]", "[4, 1{a,b}4]"), RuntimeError);
}

}  // namespace
}  // namespace retile::test
