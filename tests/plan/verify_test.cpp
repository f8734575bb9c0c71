// Plans that are right pass the verifier, and the elements themselves agree.
#include "retile/plan/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "retile/plan/json.h"
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

TEST(Verify, PassesEverySample) {
  int covered = 0;
  for (const test::SamplePlan& sample : test::sample_plans()) {
    EXPECT_THAT(find_faults(sample.plan), IsEmpty()) << sample.name;
    EXPECT_EQ(replay(sample.plan), std::nullopt) << sample.name;
    const Plan by_volume =
        test::finish_plan(sample.plan.source, sample.plan.target, sample.plan.steps, CostModel::volume);
    EXPECT_THAT(find_faults(by_volume), IsEmpty()) << sample.name;
    EXPECT_THAT(find_faults(parse_plan({"plan", to_json(by_volume)})), IsEmpty()) << sample.name;
    ++covered;
  }
  EXPECT_EQ(covered, 13);
}

int count_right_gather_slice_plans(const Mesh& mesh, const Shape& shape) {
  int covered = 0;
  const std::vector<DistributedType> types = test::all_types(mesh, shape);
  for (const DistributedType& source : types) {
    for (const DistributedType& target : types) {
      for (const CostModel model : {CostModel::paper, CostModel::volume}) {
        const Plan plan = test::gather_slice_plan(source, target, model);
        EXPECT_THAT(find_faults(plan), IsEmpty()) << to_string(source) << " to " << to_string(target);
        ++covered;
      }
    }
  }
  return covered;
}

TEST(Verify, PassesGatherSliceBetweenAllTypesOfRankUpToTwo) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(12)) {
    for (int rank = 0; rank <= 2; ++rank)
      covered += count_right_gather_slice_plans(mesh, test::divisible_shape(mesh, rank));
  }
  EXPECT_EQ(covered, 25128);
}

TEST(Verify, PassesGatherSliceBetweenAllTypesOfRankThree) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(8))
    covered += count_right_gather_slice_plans(mesh, test::divisible_shape(mesh, 3));
  EXPECT_EQ(covered, 26338);
}

// Sizes that do not divide by every axis, and tiles of one element.
TEST(Verify, PassesGatherSliceOfUnevenShapes) {
  int covered = 0;
  for (const Mesh& mesh : test::all_meshes(6)) {
    for (std::int64_t rows = 1; rows <= 6; ++rows) {
      for (std::int64_t columns = 1; columns <= 6; ++columns)
        covered += count_right_gather_slice_plans(mesh, {rows, columns});
    }
  }
  EXPECT_EQ(covered, 6168);
}

TEST(Verify, PassesTheGatherSlicePlanOfEveryProblem) {
  std::ifstream file(RETILE_SOURCE_DIR "/tests/data/problems.jsonl");
  ASSERT_TRUE(file);
  int covered = 0;
  for (std::string line; std::getline(file, line); ++covered) {
    const Problem problem = parse_problem({"problems.jsonl", line, covered + 1});
    for (const CostModel model : {CostModel::paper, CostModel::volume}) {
      const Plan plan = test::gather_slice_plan(problem.source(), problem.target(), model);
      EXPECT_THAT(find_faults(plan), IsEmpty()) << line;
      EXPECT_THAT(find_faults(parse_plan({"plan", to_json(plan)})), IsEmpty()) << line;
    }
  }
  EXPECT_EQ(covered, 500);
}

TEST(Verify, PassesUnderACostModelItDoesNotKnow) {
  Plan plan = test::sample_plans().front().plan;
  plan.cost.model = "my machine";
  plan.steps.front().cost = plan.cost.total = 17;
  plan.cost.lower_bound = 17;
  plan.cost.optimal = true;
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

TEST(Verify, AllowsAPeakAboveTheBound) {
  const Mesh mesh = parse_mesh("a=2");
  const Plan plan = test::gather_slice_plan(parse_type("[2{a}4, 4]", mesh), parse_type("[4, 2{a}4]", mesh));
  EXPECT_GT(plan.memory.peak, plan.memory.bound);
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

TEST(Verify, PassesHugeArrays) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const DistributedType source = parse_type("[2305843009213693952{a}4611686018427387904]", mesh);
  const DistributedType target = parse_type("[2305843009213693952{b}4611686018427387904]", mesh);
  const Plan permute = test::finish_plan(source, target, {test::permute_step(Placement(source), Placement(target))});
  EXPECT_THAT(find_faults(permute), IsEmpty());
  const Plan exchange =
      test::finish_plan(source, target, {test::exchange_step(Placement(source), Placement(target))}, CostModel::volume);
  EXPECT_THAT(find_faults(exchange), IsEmpty());
}

Movement one_symbolic_step(const DistributedType& source, const DistributedType& target, StepOp op,
                           std::vector<Move> moves) {
  Step step{op, std::move(moves), {}, {}, {}, source.local_shape(), Placement(target), 0, true};
  return {source.mesh(), Placement(source), {std::move(step)}};
}

// Nobody has worked out who talks to whom, and perhaps nobody can: that is a fault of the step, not of the verifier.
TEST(Verify, JudgesSymbolicStepsBetweenAnyTypes) {
  int permutations = 0;
  int exchanges = 0;
  int slices = 0;
  for (const char* mesh_text : {"x=2,y=2", "x=2,y=3", "x=4,y=2"}) {
    const Mesh mesh = parse_mesh(mesh_text);
    const std::vector<DistributedType> types = test::all_types(mesh, {24, 24, 24});
    for (const DistributedType& source : types) {
      for (const DistributedType& target : types) {
        const auto is_right = [&](StepOp op, std::vector<Move> moves) {
          return find_faults(one_symbolic_step(source, target, op, std::move(moves))).empty();
        };
        const bool same_shape = source.local_shape() == target.local_shape();
        EXPECT_EQ(is_right(StepOp::allpermute, {}), same_shape) << to_string(source) << " to " << to_string(target);
        EXPECT_TRUE(is_right(StepOp::exchange, {})) << to_string(source) << " to " << to_string(target);
        permutations += same_shape ? 1 : 0;
        ++exchanges;
        slices += is_right(StepOp::dynslice, {{-1, 0, 2}}) ? 1 : 0;
        for (const Move& move : {Move{0, 1, 2}, Move{1, 0, 3}}) is_right(StepOp::alltoall, {move});
        is_right(StepOp::allgather, {{0, -1, 2}});
      }
    }
  }
  EXPECT_EQ(permutations, 87);
  EXPECT_EQ(exchanges, 1083);
  EXPECT_EQ(slices, 16);
}

RC_GTEST_PROP(Verify, PassesRandomPlans, ()) {
  for (int i = 0; i < 10; ++i) {
    const Plan plan = *test::arbitrary_plan();
    RC_ASSERT(find_faults(plan) == std::vector<std::string>());
    RC_ASSERT(find_faults(parse_plan({"plan", to_json(plan)})) == std::vector<std::string>());
    RC_ASSERT(!replay(plan));
  }
}

}  // namespace
}  // namespace retile
