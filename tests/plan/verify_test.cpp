// Plans that are right pass the verifier, and the elements themselves agree.
#include "retile/plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "retile/base/error.h"
#include "retile/plan/json.h"
#include "retile/plan/lists.h"
#include "retile/planner/problem.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/plan_replay.h"
#include "tests/support/plans.h"

namespace retile {
namespace {

using ::testing::IsEmpty;

std::optional<std::string> replay(const Plan& plan) {
  return test::replay_plan(nlohmann::ordered_json::parse(to_json(plan)));
}

std::vector<std::string> faults_of_text(const std::string& text) {
  const auto [plan, statements] = parse_plan({"plan", text});
  return find_faults(plan, statements);
}

Plan unlisted(Plan plan) {
  plan.movement = test::without_lists(plan.movement);
  return plan;
}

TEST(Verify, passes_every_sample) {
  int covered = 0;
  for (const test::SamplePlan& sample : test::sample_plans()) {
    EXPECT_THAT(find_faults(sample.plan), IsEmpty()) << sample.name;
    EXPECT_EQ(replay(sample.plan), std::nullopt) << sample.name;
    const Plan by_volume =
        test::finish_plan(*sample.plan.source.type(), *sample.plan.target.type(), sample.plan.steps(), volume_model());
    EXPECT_THAT(find_faults(by_volume), IsEmpty()) << sample.name;
    EXPECT_THAT(faults_of_text(to_json(by_volume)), IsEmpty()) << sample.name;
    EXPECT_THAT(find_faults(unlisted(sample.plan)), IsEmpty()) << sample.name;
    EXPECT_THAT(find_faults(unlisted(by_volume)), IsEmpty()) << sample.name;
    ++covered;
  }
  EXPECT_EQ(covered, 13);
}

int count_right_gather_slice_plans(const Mesh& mesh, const Shape& shape) {
  int covered = 0;
  const std::vector<DistributedType> types = test::all_types(mesh, shape);
  for (const DistributedType& source : types) {
    for (const DistributedType& target : types) {
      for (const CostModel* model : {&paper_model(), &volume_model()}) {
        const Plan plan = test::gather_slice_plan(source, target, *model);
        EXPECT_THAT(find_faults(plan), IsEmpty()) << to_string(source) << " to " << to_string(target);
        ++covered;
      }
    }
  }
  return covered;
}

TEST(Verify, passes_gather_slice_between_all_types_of_rank_up_to_two) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(12)) {
    for (int rank = 0; rank <= 2; ++rank)
      covered += count_right_gather_slice_plans(mesh, test::divisible_shape(mesh, rank));
  }
  EXPECT_EQ(covered, 25128);
}

TEST(Verify, passes_gather_slice_between_all_types_of_rank_three) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8))
    covered += count_right_gather_slice_plans(mesh, test::divisible_shape(mesh, 3));
  EXPECT_EQ(covered, 26338);
}

// Sizes that do not divide by every axis, and tiles of one element.
TEST(Verify, passes_gather_slice_of_uneven_shapes) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(6)) {
    for (std::int64_t rows = 1; rows <= 6; ++rows) {
      for (std::int64_t columns = 1; columns <= 6; ++columns)
        covered += count_right_gather_slice_plans(mesh, {rows, columns});
    }
  }
  EXPECT_EQ(covered, 6168);
}

TEST(Verify, passes_the_gather_slice_plan_of_every_problem) {
  std::ifstream file(RETILE_SOURCE_DIR "/tests/data/problems.jsonl");
  ASSERT_TRUE(file);
  int covered = 0;
  for (std::string line; std::getline(file, line); ++covered) {
    const Problem problem = parse_problem(SourceText{"problems.jsonl", line, covered + 1});
    for (const CostModel* model : {&paper_model(), &volume_model()}) {
      const Plan plan =
          test::gather_slice_plan(require_typed(problem).source(), require_typed(problem).target(), *model);
      EXPECT_THAT(find_faults(plan), IsEmpty()) << line;
      EXPECT_THAT(faults_of_text(to_json(plan)), IsEmpty()) << line;
    }
  }
  EXPECT_EQ(covered, 500);
}

// Physically right, and idle: somebody else's planner may make such steps.
TEST(Verify, passes_steps_that_do_nothing) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType type = parse_type("[2{a}4, 4]", mesh);
  const auto faults_of = [&](StepOperation operation) {
    return find_faults(test::finish_plan(type, type, {{std::move(operation), Placement(type)}}, volume_model()));
  };
  const Groups alone{{0}, {1}, {2}, {3}};
  EXPECT_THAT(faults_of(SliceStep{}), IsEmpty());
  EXPECT_THAT(faults_of(SliceStep{{{1, 1}}}), IsEmpty());
  for (const std::optional<Groups>& groups : {std::optional<Groups>(alone), std::optional<Groups>()}) {
    EXPECT_THAT(faults_of(GatherStep{{}, groups}), IsEmpty());
    EXPECT_THAT(faults_of(GatherStep{{{0, 1}}, groups}), IsEmpty());
    EXPECT_THAT(faults_of(AllToAllStep{{}, groups}), IsEmpty());
    EXPECT_THAT(faults_of(AllToAllStep{{{0, 1, 1}}, groups}), IsEmpty());
  }
  EXPECT_THAT(faults_of(PermuteStep{}), IsEmpty());
  EXPECT_THAT(faults_of(PermuteStep{{{{0, 0}, {1, 1}, {2, 2}, {3, 3}}}}), IsEmpty());
  EXPECT_THAT(faults_of(ExchangeStep{}), IsEmpty());
  EXPECT_THAT(faults_of(ExchangeStep{std::vector<Piece>()}), IsEmpty());
}

TEST(Verify, passes_a_group_without_members) {
  Plan plan = test::sample_plan(test::sample_plans(), "allgather");
  std::get<GatherStep>(plan.movement.steps[0].operation).groups = Groups{{0, 2}, {}, {1, 3}};
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

// What is sent to a device that has it already is wasted, and does no harm.
TEST(Verify, passes_a_transfer_of_what_the_device_held) {
  const Mesh mesh = parse_mesh("a=2");
  const DistributedType source = parse_type("[4]", mesh);
  const DistributedType target = parse_type("[2{a}4]", mesh);
  const Step step{ExchangeStep{{{{0, 1, {{2}, {3}}}, {0, 1, {{3}, {4}}}}}}, Placement(target)};
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step}, volume_model())), IsEmpty());
}

TEST(Verify, checks_what_is_stated_alone) {
  const Plan right = test::sample_plan(test::sample_plans(), "allgather");
  Plan plan = right;
  plan.cost = {};
  plan.memory = {};
  EXPECT_THAT(find_faults(plan, {false, false, {}}), IsEmpty());
  EXPECT_THAT(find_faults(plan, {true, false, {}}), ::testing::SizeIs(1));
  EXPECT_THAT(find_faults(plan, {false, true, {}}), ::testing::SizeIs(::testing::Gt(1)));
  plan.memory = right.memory;
  EXPECT_THAT(find_faults(plan, {false, true, {}}), IsEmpty());
  plan.cost = right.cost;
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

TEST(Verify, passes_huge_arrays) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2305843009213693952{a}4611686018427387904]", mesh);
  const DistributedType target = parse_type("[2305843009213693952{b}4611686018427387904]", mesh);
  const Plan permute = test::finish_plan(source, target, {test::permute_step(Placement(source), Placement(target))});
  EXPECT_THAT(find_faults(permute), IsEmpty());
  const Plan exchange =
      test::finish_plan(source, target, {test::exchange_step(Placement(source), Placement(target))}, volume_model());
  EXPECT_THAT(find_faults(exchange), IsEmpty());
}

// --- Work grows with the plan, not with pairs of its steps, transfers or devices: by pairs these would take minutes.

TEST(Verify, passes_very_many_steps) {
  const DistributedType type = parse_type("[1{a}2]", parse_mesh("a=2"));
  const std::vector<Step> steps(200000, Step{PermuteStep{{{{0, 0}, {1, 1}}}}, Placement(type)});
  EXPECT_THAT(find_faults(test::finish_plan(type, type, steps, volume_model())), IsEmpty());
}

TEST(Verify, passes_very_many_transfers_in_any_order) {
  const Mesh mesh = parse_mesh("a=2");
  constexpr std::int64_t columns = 400;
  const DistributedType source = parse_type("[400{a}800, 400]", mesh);
  const DistributedType target = parse_type("[800, 400]", mesh);
  std::vector<Piece> transfers{{1, 0, {{columns, 0}, {2 * columns, columns}}}};
  for (std::int64_t i = 0; i < columns * columns; ++i) {
    const std::int64_t element = i * 7919 % (columns * columns);  // a prime that does not divide: each once
    transfers.push_back({0, 1, box_at({element / columns, element % columns}, {1, 1})});
  }
  const Step step{ExchangeStep{transfers}, Placement(target)};
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step}, volume_model())), IsEmpty());
}

TEST(Verify, passes_very_large_groups) {
  const Mesh mesh = parse_mesh("a=32768");
  const DistributedType source = parse_type("[1{a}32768, 32768]", mesh);
  const DistributedType target = parse_type("[32768, 1{a}32768]", mesh);
  Groups groups(1);
  for (Device device = 0; device < mesh.device_count(); ++device) groups[0].push_back(device);
  const Step step{AllToAllStep{{{0, 1, 32768}}, groups}, Placement(target)};
  EXPECT_THAT(find_faults(test::finish_plan(source, target, {step})), IsEmpty());
}

// The verdict on a step without lists is the verdict on the step with those that are worked out, or that there are
// none.
bool is_possible(const DistributedType& source, const DistributedType& target, const StepOperation& operation) {
  const Movement movement{source.mesh(), Placement(source), {{operation, Placement(target)}}};
  const bool possible = find_faults(movement).empty();
  bool listed = false;
  try {
    listed = find_faults(with_lists(movement)).empty();
  } catch (const RuntimeError&) {
  }
  EXPECT_EQ(possible, listed) << to_string(operation) << " from " << to_string(source) << " to " << to_string(target);
  return possible;
}

// Nobody has worked out who talks to whom, and perhaps nobody can: that is a fault of the step, not of the verifier.
TEST(Verify, judges_steps_without_lists_between_any_types) {
  std::map<StepOp, int> counts;
  int pairs = 0;
  for (const char* mesh_text : {"x=2,y=2", "x=2,y=3", "x=4,y=2"}) {
    const Mesh mesh = parse_mesh(mesh_text);
    const std::vector<DistributedType> types = test::all_types(mesh, {24, 24, 24});
    for (const DistributedType& source : types) {
      for (const DistributedType& target : types) {
        for (const StepOperation& operation : std::vector<StepOperation>{
                 PermuteStep{}, ExchangeStep{}, SliceStep{{{0, 2}}}, GatherStep{{{0, 2}}, {}},
                 GatherStep{{{0, 2}, {1, 2}}, {}}, AllToAllStep{{{0, 1, 2}}, {}}, AllToAllStep{{{1, 0, 3}}, {}},
                 AllToAllStep{{{0, 1, 2}, {2, 1, 2}}, {}}, AllToAllStep{{{0, 1, 2}, {1, 0, 2}}, {}},
                 AllToAllStep{{{0, 1, 2}, {1, 2, 2}}, {}}}) {
          counts[op_of(operation)] += is_possible(source, target, operation) ? 1 : 0;
        }
        ++pairs;
      }
    }
  }
  EXPECT_EQ(pairs, 1083);
  EXPECT_EQ(counts[StepOp::allpermute], 87);
  EXPECT_EQ(counts[StepOp::exchange], 1083);
  EXPECT_EQ(counts[StepOp::dynslice], 16);
  EXPECT_EQ(counts[StepOp::allgather], 18);
  EXPECT_EQ(counts[StepOp::alltoall], 26);
}

RC_GTEST_PROP(Verify, passes_random_plans, ()) {
  for (int i = 0; i < 10; ++i) {
    const Plan plan = *test::arbitrary_plan();
    RC_ASSERT(find_faults(plan) == std::vector<std::string>());
    RC_ASSERT(faults_of_text(to_json(plan)) == std::vector<std::string>());
    RC_ASSERT(find_faults(unlisted(plan)) == std::vector<std::string>());
    RC_ASSERT(!replay(plan));
  }
}

}  // namespace
}  // namespace retile
