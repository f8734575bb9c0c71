#include "retile/schedule/stage.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <utility>
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

std::vector<Piece> received_by(const Stage& stage, Device device) {
  std::vector<Piece> pieces;
  stage.visit_received(device, [&](const Piece& piece) { pieces.push_back(piece); });
  return pieces;
}

std::vector<Piece> sent_by(const Stage& stage, Device device) {
  std::vector<Piece> pieces;
  stage.visit_sent(device, [&](const Piece& piece) { pieces.push_back(piece); });
  return pieces;
}

// Pieces between devices, in the order of their receivers or senders; those between two devices keep their order.
using PiecesByPair = std::map<std::pair<Device, Device>, std::vector<Box>>;

// What is wrong with a stage, if anything: every device's box is made of its pieces, each element once, taken from
// tiles that are there; and what is sent is what is received.
std::string fault_of(const Stage& stage) {
  PiecesByPair received;
  PiecesByPair sent;
  for (Device device = 0; device < stage.after().device_count(); ++device) {
    const Box wanted = stage.after().box(device);
    std::int64_t elements = 0;
    const std::vector<Piece> pieces = received_by(stage, device);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (pieces[i].to != device) return "a piece of another device";
      if (!contains(wanted, pieces[i].box)) return "a piece outside of the box";
      if (!contains(stage.before().box(pieces[i].from), pieces[i].box)) return "a piece that its sender does not hold";
      for (std::size_t j = 0; j < i; ++j) {
        if (intersect(pieces[i].box, pieces[j].box)) return "an element twice";
      }
      elements += volume(pieces[i].box);
      if (pieces[i].from != device) received[{pieces[i].from, device}].push_back(pieces[i].box);
    }
    if (elements != volume(wanted)) return "an element is missing";
    for (const Piece& piece : sent_by(stage, device)) {
      if (piece.from != device) return "a piece that another device sends";
      sent[{device, piece.to}].push_back(piece.box);
    }
  }
  return sent == received ? "" : "what is sent is not what is received";
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
    for (Device device = 0; device < problem.device_count(); ++device) {
      EXPECT_EQ(received_by(expected.front(), device), received_by(stages.front(), device));
    }
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
  EXPECT_EQ(received_by(stages[0], 1), (std::vector<Piece>{{2, 1, {{2, 0}, {4, 2}}}}));
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
  EXPECT_EQ(received_by(stages[1], 3), (std::vector<Piece>{{3, 3, {{2, 2}, {4, 4}}}}));
  EXPECT_EQ(fault_of(plan), "");
}

// A plan that somebody wrote may send what a device already has.
TEST(Schedule, copies_an_element_once_that_is_sent_to_its_holder) {
  const auto samples = test::sample_plans();
  Plan plan = test::sample_plan(samples, "exchange");
  const Placement whole(parse_type("[4, 4]", plan.mesh()));
  plan.movement.source = whole;
  ASSERT_FALSE(std::get<ExchangeStep>(plan.steps()[0].operation).pieces->empty());
  ASSERT_TRUE(find_faults(plan.movement).empty());
  EXPECT_EQ(fault_of(plan), "");
}

// A device's part of an exchange is worked out without everybody else's.
TEST(Schedule, of_one_device_visits_its_own_pieces_alone) {
  const Problem problem = test::problem_of("a=128,b=128", "[1{a,b}16384, 16384]", "[16384, 1{a,b}16384]");
  const std::vector<Stage> stages = make_schedule(make_plan(problem, test::direct_planning().options).movement);
  std::int64_t pieces = 0;
  stages.front().visit_received(77, [&](const Piece&) { ++pieces; });
  stages.front().visit_sent(77, [&](const Piece&) { ++pieces; });
  EXPECT_EQ(pieces, 16384 + 16383);
}

TEST(Schedule, of_nothing_has_no_stages) {
  const auto samples = test::sample_plans();
  EXPECT_TRUE(make_schedule(test::sample_plan(samples, "nothing").movement).empty());
}

}  // namespace
}  // namespace retile
