#include "retile/engines/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/layouts.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"

namespace retile {
namespace {

std::vector<Transfer> next_pieces(PieceCursor& cursor) {
  std::vector<Transfer> pieces;
  cursor.next([&](const Transfer& piece) { pieces.push_back(piece); });
  return pieces;
}

std::vector<Transfer> received_by(const Stage& stage, Device device) {
  PieceCursor cursor(stage);
  while (cursor.device() < device) next_pieces(cursor);
  return next_pieces(cursor);
}

// What is wrong with a stage, if anything: every device's box is made of its pieces, each element once, taken from
// tiles that are there; and a copy of a cursor finds what the cursor does.
std::string fault_of(const Stage& stage) {
  for (PieceCursor cursor(stage); cursor.device() < stage.after().device_count();) {
    const Device device = cursor.device();
    const Box wanted = stage.after().box(device);
    std::int64_t elements = 0;
    PieceCursor copy = cursor;
    const std::vector<Transfer> pieces = next_pieces(cursor);
    if (next_pieces(copy) != pieces) return "a copy of a cursor goes another way";
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].to != device) return "a piece of another device";
      if (!contains(wanted, pieces[i].box)) return "a piece outside of the box";
      if (!contains(stage.before().box(pieces[i].from), pieces[i].box)) return "a piece that its sender does not hold";
      for (std::size_t j = 0; j < i; ++j) {
        if (intersect(pieces[i].box, pieces[j].box)) return "an element twice";
      }
      elements += volume(pieces[i].box);
    }
    if (elements != volume(wanted)) return "an element is missing";
  }
  return "";
}

std::string fault_of(const Plan& plan) {
  const Movement movement = plan.movement;
  const std::vector<Stage> stages = make_schedule(movement);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (std::string fault = fault_of(stages[i]); !fault.empty()) return fault;
    const Placement& before = i == 0 ? movement.source : stages[i - 1].after();
    if (!(stages[i].before() == before)) return "a stage does not start where the last one ended";
  }
  const Placement& end = stages.empty() ? movement.source : stages.back().after();
  return end == movement.target() ? "" : "the last stage does not end in the target";
}

TEST(Schedule, is_right_for_every_sample) {
  for (const test::SamplePlan& sample : test::sample_plans()) EXPECT_EQ(fault_of(sample.plan), "") << sample.name;
}

RC_GTEST_PROP(Schedule, is_right_for_random_plans, ()) {
  for (int i = 0; i < 10; ++i) RC_ASSERT(fault_of(*test::arbitrary_plan()) == "");
}

TEST(Schedule, is_right_for_every_planner) {
  test::RandomProblems random(1);
  for (int i = 0; i < 100; ++i) {
    const Mesh mesh = parse_mesh(random.pick(std::vector<std::string>{"a=2,b=3", "a=2,b=2,c=3", "a=6", "a=4,b=5"}));
    const Problem problem = random.problem(mesh, test::divisible_shape(mesh, 2));
    for (const test::Planning& planning : test::all_plannings()) {
      EXPECT_EQ(fault_of(make_plan(problem, planning.options)), "") << planning.name << " " << test::describe(problem);
    }
  }
}

TEST(Schedule, of_symbolic_plans) {
  const Problem problem = test::problem_of("a=32,b=32", "[1{a}32, 2{b}64]", "[1{b}32, 2{a}64]");
  for (const test::Planning& planning : test::all_plannings()) {
    const Plan plan = make_plan(problem, planning.options);
    EXPECT_EQ(fault_of(plan), "") << planning.name;
  }
  EXPECT_FALSE(is_listed(make_plan(problem).steps().front().operation)) << "otherwise this tests nothing of its own";
}

// Where a plan lists its transfers or leaves it, the same devices send the same pieces.
TEST(Schedule, of_an_exchange_is_the_same_without_lists) {
  for (const Problem& problem :
       {test::problem_of("a=32,b=32", "[2{a:(1)16}32, 2{b}64]", "[1{b}32, 2{a}64]"),
        test::problem_of("a=32,b=32", "[2{a:(1)16}32, 2{b}64]", "[32, 4{a:(1)16}64]"),
        test::problem_of(test::ProblemText{"a=64", "[2{a}96, 96]", "a=16,b=3", "[96, 2{a,b}96]"})}) {
    const Movement unlisted = make_plan(problem, test::direct_planning().options).movement;
    ASSERT_FALSE(is_listed(unlisted.steps.front().operation));
    const std::vector<Stage> expected = make_schedule(with_lists(unlisted));
    const std::vector<Stage> stages = make_schedule(unlisted);
    PieceCursor one(expected.front());
    PieceCursor other(stages.front());
    while (one.device() < problem.device_count()) EXPECT_EQ(next_pieces(one), next_pieces(other));
  }
}

TEST(Schedule, reads_through_slices) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType whole = parse_type("[4, 4]", mesh);
  const DistributedType rows = parse_type("[2{a}4, 4]", mesh);
  const DistributedType both = parse_type("[2{a}4, 2{b}4]", mesh);
  const DistributedType swapped = parse_type("[2{b}4, 2{a}4]", mesh);
  std::vector<Step> steps{test::slice_step({{0, 2}}, rows), test::slice_step({{1, 2}}, both),
                          test::permute_step(Placement(both), Placement(swapped))};
  const Plan plan = test::finish_plan(whole, swapped, std::move(steps));
  const std::vector<Stage> stages = make_schedule(plan.movement);
  ASSERT_EQ(stages.size(), 1U);
  EXPECT_EQ(stages[0].step(), 2U);
  EXPECT_EQ(stages[0].before(), Placement(whole)) << "slices are never made";
  EXPECT_EQ(received_by(stages[0], 1), (std::vector<Transfer>{{2, 1, {{2, 0}, {4, 2}}}}));
  EXPECT_EQ(fault_of(plan), "");
}

TEST(Schedule, copies_once_at_the_end_where_plans_end_with_slices) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType rows = parse_type("[2{a}4, 4]", mesh);
  const DistributedType whole = parse_type("[4, 4]", mesh);
  const DistributedType columns = parse_type("[4, 2{b}4]", mesh);
  const DistributedType both = parse_type("[2{a}4, 2{b}4]", mesh);
  std::vector<Step> steps{test::gather_step({{0, 2}}, {mesh.whole(0)}, whole), test::slice_step({{1, 2}}, columns),
                          test::slice_step({{0, 2}}, both)};
  const Plan plan = test::finish_plan(rows, both, std::move(steps));
  ASSERT_TRUE(find_faults(plan).empty());
  const std::vector<Stage> stages = make_schedule(plan.movement);
  ASSERT_EQ(stages.size(), 2U);
  EXPECT_EQ(stages[0].step(), 0U);
  EXPECT_EQ(stages[1].step(), 2U);
  EXPECT_EQ(received_by(stages[1], 3), (std::vector<Transfer>{{3, 3, {{2, 2}, {4, 4}}}}));
  EXPECT_EQ(fault_of(plan), "");
}

// A plan that somebody wrote may send what a device already has.
TEST(Schedule, copies_an_element_once_that_is_sent_to_its_holder) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "exchange");
  const Placement whole(parse_type("[4, 4]", plan.mesh()));
  plan.movement.source = whole;
  ASSERT_FALSE(std::get<ExchangeStep>(plan.steps()[0].operation).transfers->empty());
  ASSERT_TRUE(find_faults(plan.movement).empty());
  EXPECT_EQ(fault_of(plan), "");
}

TEST(Schedule, of_nothing_has_no_stages) {
  const auto samples = test::sample_plans();
  EXPECT_TRUE(make_schedule(test::sample_plan(samples, "nothing").movement).empty());
}

}  // namespace
}  // namespace retile
