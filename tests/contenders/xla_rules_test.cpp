#include "retile/contenders/xla_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evaluation/xla_plans.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/run.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

using namespace contenders;
using namespace evaluation;

using ::testing::IsEmpty;

std::string steps_by_rules(const char* mesh, const char* source, const char* target) {
  const Plan plan = plan_by_xla_rules(problem_of(mesh, source, target));
  EXPECT_THAT(find_faults(plan), IsEmpty());
  return steps_of(plan);
}

// --- The rules, one by one.

TEST(XlaRules, nothing_where_nothing_changes) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8]", "[4{a}8]"), "");
  EXPECT_EQ(steps_by_rules("a=2", "[]", "[]"), "");
  EXPECT_EQ(steps_by_rules("a=1,b=2", "[8{a}8]", "[8]"), "");
}

TEST(XlaRules, permute_where_tile_counts_agree) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[2{a,b}8]", "[2{b,a}8]"), "allpermute");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8]", "[4{b}8]"), "allpermute");
}

TEST(XlaRules, all_to_all_swaps_counts) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 8]", "[8, 4{a}8]"), "alltoall(0 -> 1; 2)");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 8]", "[8, 4{b}8]"), "alltoall(0 -> 1; 2) allpermute");
}

TEST(XlaRules, one_all_to_all_for_swaps_that_share_no_dimension) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 4{b}8, 8, 8]", "[8, 8, 4{a}8, 4{b}8]"),
            "alltoall(0 -> 2; 2, 1 -> 3; 2)");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 4{b}8, 8, 8]", "[8, 8, 4{b}8, 4{a}8]"),
            "alltoall(0 -> 2; 2, 1 -> 3; 2) allpermute");
}

TEST(XlaRules, swaps_that_share_a_dimension_follow_each_other) {
  EXPECT_EQ(steps_by_rules("a=4,b=2", "[2{a}8, 4{b}8, 8]", "[8, 2{a}8, 4{b}8]"),
            "alltoall(1 -> 2; 2) alltoall(0 -> 1; 4)");
}

TEST(XlaRules, slice_replicas) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 8]", "[4{a}8, 4{b}8]"), "dynslice(1; 2)");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 8]", "[4{b}8, 4{a}8]"), "dynslice(1; 2) allpermute");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[8, 8]", "[4{a}8, 4{b}8]"), "dynslice(0; 2, 1; 2)");
}

TEST(XlaRules, shifted_by_one_dimension) {
  EXPECT_EQ(steps_by_rules("a=2,b=3", "[6, 3{a}6, 6]", "[3{a}6, 6, 2{b}6]"), "alltoall(1 -> 0; 2) dynslice(2; 3)");
  EXPECT_EQ(steps_by_rules("a=2,b=3", "[6, 3{a}6]", "[3{a}6, 2{b}6]"), "alltoall(1 -> 0; 2) dynslice(1; 3)");
  EXPECT_EQ(steps_by_rules("a=2,b=3", "[3{a}6, 2{b}6]", "[6, 3{a}6]"), "allgather(1; 3) alltoall(0 -> 1; 2)");
}

TEST(XlaRules, gather_into_replicas) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 4{b}8]", "[4{a}8, 8]"), "allgather(1; 2)");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 4{b}8]", "[4{b}8, 8]"), "allpermute allgather(1; 2)");
}

TEST(XlaRules, gather_last_dimension_first) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{a}8, 4{b}8]", "[8, 8]"), "allgather(1; 2) allgather(0; 2)");
}

TEST(XlaRules, split_a_dimension_that_stays_cut) {
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[2{a,b}8, 8]", "[4{b}8, 4{a}8]"), "alltoall(0 -> 1; 2)");
  EXPECT_EQ(steps_by_rules("a=2,b=2", "[4{b}8, 4{a}8]", "[2{a,b}8, 8]"), "alltoall(1 -> 0; 2)");
}

TEST(XlaRules, gather_a_dimension_that_becomes_replicas) {
  EXPECT_EQ(steps_by_rules("a=2,b=2,c=2", "[8, 2{c,a}8, 4{b}8]", "[8, 8, 2{c,b}8]"),
            "allgather(2; 2) alltoall(1 -> 2; 4) allpermute");
}

TEST(XlaRules, slice_all_replicas_into_one_dimension) {
  EXPECT_EQ(steps_by_rules("a=3,b=2", "[12{b}24, 24, 24]", "[24, 8{a}24, 12{b}24]"),
            "dynslice(1; 3) alltoall(0 -> 2; 2)");
}

TEST(XlaRules, last_resort_gathers_everything) {
  EXPECT_EQ(steps_by_rules("a=2,b=3", "[3{a}6, 6]", "[6, 2{b}6]"), "allgather(0; 2) dynslice(1; 3)");
}

TEST(XlaRules, last_resort_within_groups_of_devices) {
  EXPECT_EQ(steps_by_rules("a=2,b=3,c=2", "[6{a}12, 6{c}12, 12]", "[6{a}12, 12, 4{b}12]"),
            "allgather(1; 2) dynslice(2; 3)");
}

// --- What the plans say of themselves.

TEST(XlaRules, plan_says_what_it_needs) {
  const Plan plan = plan_by_xla_rules(problem_of("a=2,b=3", "[3{a}6, 6]", "[6, 2{b}6]"));
  EXPECT_EQ(plan.planner, "xla");
  EXPECT_EQ(plan.cost.model, "paper");
  EXPECT_EQ(plan.cost.total, 36);
  EXPECT_EQ(plan.cost.floor, 6);
  EXPECT_EQ(plan.cost.lower_bound, 6);
  EXPECT_FALSE(plan.cost.optimal);
  EXPECT_EQ(plan.memory.bound, 36);
  EXPECT_EQ(plan.memory.peak, 36);
}

TEST(XlaRules, prices_by_the_model_asked_for) {
  const Plan plan = plan_by_xla_rules(problem_of("a=2,b=3", "[3{a}6, 6]", "[6, 2{b}6]"), volume_model());
  EXPECT_EQ(plan.cost.model, "volume");
  EXPECT_EQ(plan.cost.total, 18);
}

TEST(XlaRules, too_many_devices) {
  const Problem problem = problem_of("a=2097152", "[1{a}2097152]", "[2097152]");
  const std::string expected =
      "error: 2097152 devices are too many for XLA's rules\n"
      "hint: plans by these rules list their devices, up to 1048576\n";
  EXPECT_EQ(diagnostic_of([&] { return plan_by_xla_rules(problem); }), expected);
  EXPECT_EQ(diagnostic_of([&] { return xla_fails(problem); }), expected);
}

TEST(XlaRules, many_devices) {
  const Plan plan = plan_by_xla_rules(problem_of("a=64,b=64", "[1{a,b}4096, 4096]", "[64{b}4096, 64{a}4096]"));
  EXPECT_EQ(steps_of(plan), "alltoall(0 -> 1; 64)");
  EXPECT_THAT(find_faults(plan), IsEmpty());
}

// --- Every plan is right.

Problem arbitrary_problem() {
  const Mesh mesh = *arbitrary_mesh();
  const Shape global = divisible_shape(mesh, *rc::gen::inRange(1, 4));
  const DistributedType source = *arbitrary_type(mesh, global);
  return {"", source, *arbitrary_type(mesh, global)};
}

RC_GTEST_PROP(XlaRules, every_plan_verifies, ()) {
  const Problem problem = arbitrary_problem();
  for (const CostModel* model : {&paper_model(), &volume_model()}) {
    const Plan plan = plan_by_xla_rules(problem, *model);
    RC_ASSERT(find_faults(plan) == std::vector<std::string>());
    for (std::size_t i = 0; i < plan.steps().size(); ++i) {
      RC_ASSERT(!(plan.steps()[i].after == plan.movement.before(i)));
    }
  }
}

TEST(XlaRules, plans_move_the_right_data) {
  const std::unique_ptr<Engine> engine = make_reference_engine();
  RandomProblems random(2);
  for (const char* text : {"a=2", "a=6", "a=2,b=2,c=2", "a=3,b=2", "a=12", "a=4,b=4", "a=2,b=3,c=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 30; ++i) {
      const Shape global = random.shape(1 + i % 3, {mesh.device_count(), 1, 2, 3, 6, 12});
      const Problem problem = random.problem(mesh, global);
      EXPECT_EQ(run_plan(plan_by_xla_rules(problem), *engine).difference, std::nullopt) << describe(problem);
    }
  }
}

// Larger ones, of mixed primes and cut along parts of axes.
TEST(XlaRules, plans_of_larger_meshes_verify) {
  RandomProblems random(1);
  const std::vector<std::string> meshes{"a=6,b=10",        "a=4,b=6,c=3", "a=12,b=2,c=3", "a=5,b=7",
                                        "a=2,b=3,c=5,d=2", "a=9,b=4",     "a=8,b=8",      "a=2,b=2,c=2,d=2,e=2,f=3"};
  for (int round = 0; round < (is_sweep() ? 400 : 40); ++round) {
    for (const std::string& text : meshes) {
      const Mesh mesh = parse_mesh(text);
      const Problem problem =
          random.problem(mesh, random.shape(1 + static_cast<int>(random.number(5)), {720, 2520, 96}));
      ASSERT_THAT(find_faults(plan_by_xla_rules(problem)), IsEmpty()) << describe(problem);
    }
  }
}

// --- Agreement with the compiler.

struct Recorded {
  Problem problem;
  XlaPlan plan;
  nlohmann::json devices;  // of each collective: "groups", or "pairs" of a permutation, ascending
};

std::vector<Recorded> recorded(const std::string& problems, const std::string& plans, const std::string& devices) {
  const std::vector<SourceText> problem_lines = data_lines(problems);
  const std::vector<SourceText> plan_lines = data_lines(plans);
  const std::vector<SourceText> device_lines = data_lines(devices);
  EXPECT_EQ(plan_lines.size(), problem_lines.size());
  EXPECT_EQ(device_lines.size(), problem_lines.size());
  std::vector<Recorded> result;
  for (std::size_t i = 0; i < problem_lines.size(); ++i) {
    result.push_back({parse_problem(problem_lines[i]), parse_xla_plan(plan_lines.at(i)),
                      nlohmann::json::parse(device_lines.at(i).text)});
    EXPECT_EQ(result.back().plan.id, result.back().problem.id());
    EXPECT_EQ(result.back().devices["id"], result.back().problem.id());
  }
  return result;
}

nlohmann::json devices_of(const Plan& plan) {
  nlohmann::json collectives = nlohmann::json::array();
  for (const Step& step : with_lists(plan.movement).steps) {
    const Groups* groups = groups_of(step.operation);
    Groups lists = groups != nullptr ? *groups : Groups();
    const auto* permute = std::get_if<PermuteStep>(&step.operation);
    const bool is_permutation = permute != nullptr;
    if (is_permutation) {
      for (const DevicePair& pair : *permute->pairs) lists.push_back({pair.source, pair.target});
    }
    for (std::vector<Device>& list : lists) {
      if (!is_permutation) std::sort(list.begin(), list.end());
    }
    std::sort(lists.begin(), lists.end());
    if (op_of(step) != StepOp::dynslice) collectives.push_back({{is_permutation ? "pairs" : "groups", lists}});
  }
  return collectives;
}

struct Agreement {
  int problems = 0;
  int collectives = 0;  // problems with the same kinds, order and sizes
  int devices = 0;      // problems whose collectives also have the same groups and pairs
  int failures = 0;     // problems that the model sees the compiler fail on
};

Agreement agreement(const std::vector<Recorded>& records) {
  Agreement agreement;
  for (const Recorded& record : records) {
    const Plan plan = plan_by_xla_rules(record.problem);
    EXPECT_THAT(find_faults(plan), IsEmpty()) << describe(record.problem);
    ++agreement.problems;
    agreement.collectives += has_collectives_of(plan, record.plan) ? 1 : 0;
    agreement.devices += devices_of(plan) == record.devices["ops"] ? 1 : 0;
    agreement.failures += xla_fails(record.problem) ? 1 : 0;
  }
  return agreement;
}

TEST(XlaAgreement, on_the_papers_family) {
  const Agreement found = agreement(recorded("problems.jsonl", "xla_plans.jsonl", "xla_devices.jsonl"));
  EXPECT_EQ(found.problems, 500);
  EXPECT_EQ(found.collectives, 500);
  EXPECT_EQ(found.devices, 500);
  EXPECT_EQ(found.failures, 0);
}

TEST(XlaAgreement, on_other_meshes) {
  const Agreement found =
      agreement(recorded("xla_other_problems.jsonl", "xla_other_plans.jsonl", "xla_other_devices.jsonl"));
  EXPECT_EQ(found.problems, 486);
  EXPECT_EQ(found.collectives, 486);
  EXPECT_EQ(found.devices, 486);
  EXPECT_EQ(found.failures, 0);
}

// Problems that the compiler ended on, by a failed check or a division by zero.
TEST(XlaAgreement, on_problems_that_the_compiler_fails_on) {
  const std::vector<SourceText> lines = data_lines("xla_failures.jsonl");
  EXPECT_EQ(lines.size(), 55U);
  for (const SourceText& line : lines) {
    const Problem problem = parse_problem(line);
    EXPECT_TRUE(xla_fails(problem)) << describe(problem);
    EXPECT_THAT(find_faults(plan_by_xla_rules(problem)), IsEmpty()) << describe(problem);
  }
}

TEST(XlaAgreement, compares_kinds_order_and_sizes) {
  const Plan plan = plan_by_xla_rules(problem_of("a=2,b=2", "[4{a}8, 8]", "[8, 4{b}8]"));
  const XlaStep swap{XlaOp::all_to_all, {{4, 4}, {4, 4}}};
  const XlaStep permute{XlaOp::collective_permute, {{8, 4}}};
  EXPECT_TRUE(has_collectives_of(plan, {"", {swap, permute}}));
  EXPECT_FALSE(has_collectives_of(plan, {"", {permute, swap}}));
  EXPECT_FALSE(has_collectives_of(plan, {"", {swap}}));
  EXPECT_FALSE(has_collectives_of(plan, {"", {swap, permute, permute}}));
  EXPECT_FALSE(has_collectives_of(plan, {"", {swap, {XlaOp::collective_permute, {{8, 8}}}}}));
}

TEST(XlaRules, pad_arrays_that_do_not_divide_and_clip_them_again) {
  const Mesh mesh = parse_mesh("a=2,b=3");
  const Problem problem("", parse_layout("[12{a}23, 7]", mesh), parse_layout("[23, 4{a}7]", mesh));
  const Plan plan = plan_by_xla_rules(problem);
  EXPECT_THAT(find_faults(plan), IsEmpty());
  EXPECT_EQ(plan.movement.target(), problem.target().placement());
  EXPECT_EQ(plan.memory.source, 12 * 7);
  EXPECT_FALSE(xla_fails(problem));
}

TEST(XlaRules, refuse_what_the_model_has_not) {
  const Mesh mesh = parse_mesh("a=2,b=3");
  const auto fault = [&](const char* source, const char* target) {
    return diagnostic_of([&] {
      return plan_by_xla_rules({"", parse_layout(source, mesh), parse_layout(target, mesh)});
    });
  };
  EXPECT_EQ(fault("[8] sum {a}", "[8]"), "error: XLA's rules for sums are not in the model\n");
  EXPECT_EQ(
      fault("[4{a}7]", "[3{b}7]"),
      "error: XLA's rules are modelled for one mesh and for sizes that have a common padding\n"
      "hint: dimensions are cut as a whole, and rounded up to tiles of one size they are as long on both sides\n");
}

}  // namespace
}  // namespace retile::test
