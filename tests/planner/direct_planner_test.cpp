// One exchange: every device fetches what it lacks of its target, once, from one of the devices that hold it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

const std::vector<Piece>& transfers_of(const Plan& plan) {
  return *std::get<ExchangeStep>(plan.steps()[0].operation).pieces;
}

// The device's target box is what it holds and what it is sent, each element once.
void expect_exactly_the_rest(const Plan& plan, Device device) {
  const Box held = plan.movement.source.box(device);
  const Box wanted = plan.target.placement().box(device);
  std::vector<Box> parts;
  if (const auto kept = intersect(held, wanted)) parts.push_back(*kept);
  for (const Piece& transfer : transfers_of(plan)) {
    if (transfer.to != device) continue;
    EXPECT_TRUE(contains(wanted, transfer.box));
    EXPECT_FALSE(intersect(held, transfer.box)) << "what the device holds is not sent to it";
    parts.push_back(transfer.box);
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    total += volume(parts[i]);
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(intersect(parts[i], parts[j])) << "no element comes twice";
  }
  EXPECT_EQ(total, volume(wanted));
}

// For each tile of the source, its holders send pieces in numbers that differ by at most one.
void expect_balanced_senders(const Plan& plan) {
  const Placement& source = plan.movement.source;
  std::vector<int> sent(static_cast<std::size_t>(plan.mesh().device_count()));
  for (const Piece& transfer : transfers_of(plan)) {
    EXPECT_NE(transfer.from, transfer.to);
    EXPECT_TRUE(contains(source.box(transfer.from), transfer.box));
    ++sent[static_cast<std::size_t>(transfer.from)];
  }
  std::map<Shape, std::pair<int, int>> extremes;
  for (Device device = 0; device < source.device_count(); ++device) {
    const int count = sent[static_cast<std::size_t>(device)];
    auto& [least, most] = extremes.try_emplace(source.offset(device), count, count).first->second;
    least = std::min(least, count);
    most = std::max(most, count);
  }
  for (const auto& [corner, range] : extremes) EXPECT_LE(range.second - range.first, 1) << to_string(corner);
}

void expect_direct(const Problem& problem) {
  Plan plan = make_plan(problem, direct_planning(volume_model()).options);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
  EXPECT_EQ(plan.cost.total, plan.cost.floor) << "under volume nothing is cheaper";
  EXPECT_TRUE(plan.cost.optimal);
  EXPECT_EQ(plan.memory.peak, std::max(problem.source().local_size(), problem.target().local_size()));
  const std::string letters = kinds(plan);
  const std::string expected = problem.source() == problem.target() ? "" : plan.cost.floor == 0 ? "s" : "e";
  ASSERT_EQ(letters, expected);
  if (letters != "e") return;
  EXPECT_FALSE(is_listed(plan.steps()[0].operation)) << "each device works out its own pieces";
  plan.movement = with_lists(plan.movement);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
  for (Device device = 0; device < problem.device_count(); ++device) expect_exactly_the_rest(plan, device);
  expect_balanced_senders(plan);
}

TEST(DirectPlanner, sends_every_device_what_it_lacks_and_no_more) {
  int covered = 0;
  for (const Mesh& mesh : all_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& source : types) {
      for (const DistributedType& target : types) {
        expect_direct({"", source, target});
        ASSERT_FALSE(HasFailure()) << to_string(source) << " to " << to_string(target) << " on " << to_string(mesh);
        ++covered;
      }
    }
  }
  EXPECT_EQ(covered, 10246);
}

TEST(DirectPlanner, on_larger_meshes) {
  RandomProblems random(51);
  for (const char* text : {"a=4,b=6", "a=2,b=3,c=5", "a=8,b=8", "a=2,b=2,c=2,d=2,e=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 20; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      expect_direct(problem);
      ASSERT_FALSE(HasFailure()) << describe(problem);
    }
  }
}

RC_GTEST_PROP(DirectPlanner, on_random_meshes, ()) {
  const Mesh mesh = *arbitrary_mesh();
  const Shape global = divisible_shape(mesh, *rc::gen::inRange(1, 4));
  const DistributedType source = *arbitrary_type(mesh, global);
  const Problem problem("", source, *arbitrary_type(mesh, global));
  const Plan plan = make_plan(problem, direct_planning(volume_model()).options);
  RC_ASSERT(find_faults(plan) == std::vector<std::string>());
  RC_ASSERT(plan.cost.total == plan.cost.floor);
}

TEST(DirectPlanner, costs_the_target_under_the_papers_weights) {
  const Plan plan = make_plan(problem_of("a=2,b=2", "[2{a}4, 4]", "[4, 2{b}4]"), direct_planning().options);
  EXPECT_EQ(steps_of(plan), "exchange");
  EXPECT_EQ(plan.cost.total, 8);
  EXPECT_EQ(plan.cost.floor, 4);
  EXPECT_TRUE(plan.cost.optimal) << "the last step of any plan leads to tiles as large as the target's";
  EXPECT_EQ(plan.cost.over, "all plans");
}

TEST(DirectPlanner, slices_where_nothing_must_move) {
  const Plan plan = make_plan(problem_of("a=2,b=3", "[6, 3{a}6]", "[2{b}6, 3{a}6]"), direct_planning().options);
  EXPECT_EQ(steps_of(plan), "dynslice(0; 3)");
  EXPECT_EQ(plan.cost.total, 0);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
}

// Both halves of the array have two holders; each sends to one of the two devices that lack it.
TEST(DirectPlanner, asks_holders_in_turn) {
  Plan plan = make_plan(problem_of("a=2,b=2", "[2{a}4]", "[4]"), direct_planning().options);
  plan.movement = with_lists(plan.movement);
  const std::vector<Piece> expected{{2, 0, {{2}, {4}}}, {3, 1, {{2}, {4}}}, {0, 2, {{0}, {2}}}, {1, 3, {{0}, {2}}}};
  EXPECT_EQ(transfers_of(plan), expected);
}

}  // namespace
}  // namespace retile::test
