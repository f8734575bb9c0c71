// `auto`: the cheapest plan that fits the memory and that the executor can carry out, over all planners.
#include <gtest/gtest.h>

#include <algorithm>

#include "retile/base/list.h"
#include "retile/plan/memory.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

Plan plan_with(const Problem& problem, const PlanOptions& options = {}) {
  Plan plan = make_plan(problem, options);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << describe(problem);
  return plan;
}

PlanOptions options_for(const Executor& executor) {
  PlanOptions options;
  options.executor = executor;
  return options;
}

Plan plan_by(PlannerKind kind, const Problem& problem, PlanOptions options = {}) {
  options.planner = kind;
  return make_plan(problem, options);
}

// Gathers along a, slices along b: wide exchanges small tiles first, and pays for the gather in full.
Problem gathering_problem() { return problem_of("a=4,b=2", "[1{a,b}8, 2]", "[8, 1{b}2]"); }

TEST(Auto, takes_one_exchange_where_it_is_cheaper) {
  const Problem problem = problem_of("a=4,b=4", "[1, 94{b,a}1504, 1964]", "[1, 1504, 491{a}1964]");
  const Plan plan = plan_with(problem);
  EXPECT_EQ(plan.planner, "direct");
  EXPECT_EQ(plan.cost.total, 738464);
  EXPECT_TRUE(plan.cost.optimal);
  EXPECT_EQ(plan.cost.over, "all plans");
  EXPECT_GT(plan_by(PlannerKind::wide, problem).cost.total, 738464);
}

TEST(Auto, takes_wide_where_costs_are_equal) {
  const Problem problem = problem_of("a=2", "[2{a}4, 4]", "[4, 2{a}4]");
  const Plan plan = plan_with(problem);
  EXPECT_EQ(plan.planner, "wide");
  EXPECT_EQ(plan.cost.total, plan_by(PlannerKind::direct, problem).cost.total);
}

// On recorded problems, under both models: no planner has a cheaper plan, and ties are wide's.
TEST(Auto, is_the_cheapest_of_all_planners) {
  int direct = 0;
  for (const Problem& problem : file_problems()) {
    for (const CostModel* model : {&paper_model(), &volume_model()}) {
      PlanOptions options;
      options.cost_model = model;
      const Plan chosen = make_plan(problem, options);
      const Plan wide = plan_by(PlannerKind::wide, problem, options);
      for (const PlannerKind kind : {PlannerKind::direct, PlannerKind::paper, PlannerKind::gather_slice}) {
        ASSERT_LE(chosen.cost.total, plan_by(kind, problem, options).cost.total) << describe(problem);
      }
      ASSERT_TRUE(chosen.cost.optimal) << describe(problem);
      ASSERT_EQ(chosen.cost.over, "all plans") << describe(problem);
      ASSERT_EQ(chosen.planner, chosen.cost.total == wide.cost.total ? "wide" : "direct") << describe(problem);
      direct += model == &paper_model() && chosen.planner == "direct" ? 1 : 0;
    }
  }
  EXPECT_EQ(direct, 124);
}

TEST(Auto, plans_for_executors_without_messages) {
  Executor executor;
  executor.transport = Executor::Transport::collectives;
  RandomProblems random(71);
  const Mesh mesh = parse_mesh("a=2,b=3,c=2");
  for (int i = 0; i < 60; ++i) {
    const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
    const Plan plan = plan_with(problem, options_for(executor));
    EXPECT_EQ(kinds(plan).find('e'), std::string::npos) << describe(problem);
    EXPECT_LE(plan.cost.total, plan_by(PlannerKind::paper, problem).cost.total) << describe(problem);
  }
}

// An executor whose source lies in slow memory reads little of it: wide plans slice first.
TEST(Auto, weighs_the_first_step) {
  const Problem problem = gathering_problem();
  EXPECT_EQ(plan_with(problem).planner, "direct");
  Executor executor;
  executor.first_weight = 2;
  const Plan plan = plan_with(problem, options_for(executor));
  EXPECT_EQ(plan.planner, "wide");
  EXPECT_EQ(plan.cost.total, 10) << "weights choose the plan, they are no part of its cost";
}

// Seconds are what steps take, whatever memory they begin in.
TEST(Auto, weighs_nothing_where_costs_are_times) {
  const Problem problem = gathering_problem();
  Machine machine;
  machine.hosts = {numbers_below<Device>(static_cast<std::size_t>(problem.device_count()))};
  machine.inside_rate = 100;
  PlanOptions options = on_machine(machine);
  EXPECT_EQ(make_plan(problem, options).planner, "direct");
  options.executor.first_weight = 2;
  EXPECT_EQ(make_plan(problem, options).planner, "direct");
}

TEST(Auto, weighs_exchanges) {
  Executor executor;
  executor.exchange_weight = 0.5;
  const Problem swap = problem_of("a=2", "[2{a}4, 4]", "[4, 2{a}4]");
  EXPECT_EQ(steps_of(plan_with(swap)), "alltoall(0 -> 1; 2)");
  EXPECT_EQ(steps_of(plan_with(swap, options_for(executor))), "exchange");
  executor.exchange_weight = 100;
  for (const Problem& problem : {gathering_problem(), problem_of("a=4,b=2", "[2{a}8, 4]", "[4{b}8, 4]")}) {
    EXPECT_EQ(kinds(plan_with(problem, options_for(executor))).find('e'), std::string::npos) << describe(problem);
  }
}

TEST(Auto, takes_exchanges_of_few_rounds) {
  const Problem problem = gathering_problem();
  Executor executor;
  executor.most_rounds = 100;
  EXPECT_EQ(plan_with(problem, options_for(executor)).planner, "direct");
  executor.most_rounds = 1;
  const Plan plan = plan_with(problem, options_for(executor));
  EXPECT_TRUE(has_few_rounds(plan, executor));
  EXPECT_GT(plan.cost.total, 8) << "one exchange would do, in more rounds";
}

// No other plan that fits the limit costs less.
TEST(Auto, is_the_cheapest_that_fits) {
  RandomProblems random(72);
  int limited = 0;
  for (const char* text : {"a=2,b=2,c=2", "a=6,b=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 100; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 2 + i % 2));
      PlanOptions options;
      options.executor.memory = {EngineMemory::Between::in_scratch, 0};
      std::vector<Plan> plans;
      for (const PlannerKind kind : {PlannerKind::wide, PlannerKind::direct, PlannerKind::paper}) {
        plans.push_back(plan_by(kind, problem, options));
      }
      const auto bytes_of_run = [&](const Plan& plan) {
        return predict_peak_bytes(plan.movement, bytes_of(problem.element_type()), TileUse::kept,
                                  options.executor.memory);
      };
      for (const Plan& limit : plans) {
        options.memory_limit = bytes_of_run(limit);
        const Plan chosen = make_plan(problem, options);
        EXPECT_LE(bytes_of_run(chosen), *options.memory_limit);
        for (const Plan& plan : plans) {
          const bool fits = bytes_of_run(plan) <= *options.memory_limit;
          EXPECT_TRUE(!fits || chosen.cost.total <= plan.cost.total) << describe(problem);
        }
        limited += chosen.planner == "wide" ? 0 : 1;
      }
    }
  }
  EXPECT_GT(limited, 20);
}

// What wide cannot plan, one exchange can.
TEST(Auto, plans_large_meshes_of_mixed_primes) {
  const Problem problem = problem_of("a=1048576,b=3", "[1{a}1048576, 3]", "[1048576, 1{b}3]");
  EXPECT_EQ(make_plan(problem).planner, "direct");
}

}  // namespace
}  // namespace retile::test
