// Plans within a budget of work: the same on every machine, and honest about what was not looked at.
#include "retile/planner/work_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

TEST(WorkBudget, is_spent_once_nothing_is_left) {
  WorkBudget budget(1);
  EXPECT_EQ(budget.left(), WorkBudget::units);
  budget.spend(WorkBudget::units - 1);
  EXPECT_FALSE(budget.is_spent());
  budget.spend(5);
  EXPECT_TRUE(budget.is_spent());
  EXPECT_EQ(budget.left(), 0);
}

TEST(WorkBudget, grows_with_the_effort_and_is_never_nothing) {
  EXPECT_EQ(WorkBudget(3).left(), 3 * WorkBudget::units);
  EXPECT_EQ(WorkBudget(1e-12).left(), 1);
  EXPECT_EQ(WorkBudget(1e300).left(), WorkBudget(WorkBudget::most_effort).left());
  EXPECT_EQ(WorkBudget(2).scaled(200), 400);
}

// Meshes of mixed primes, where routes are looked for among devices.
std::vector<Problem> hard_problems() {
  RandomProblems random(71);
  std::vector<Problem> problems{
      problem_of("a=16,b=6,c=5", "[1{a}16, 6{c}30, 2, 16, 10{b}60]", "[16, 5{b}30, 2, 1{a:(1)16}16, 12{c}60]")};
  for (const char* text : {"a=4,b=6", "a=2,b=3,c=5", "a=6,b=6", "a=12,b=8", "a=3,b=4,c=6"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 12; ++i) {
      problems.push_back(random.problem(mesh, random.shape(2 + i % 4, {mesh.device_count(), 6, 12, 36, 60})));
    }
  }
  return problems;
}

TEST(WorkBudget, plans_of_more_effort_cost_no_more_and_no_bound_is_above_them) {
  int unproved = 0;
  for (const Problem& problem : hard_problems()) {
    for (Planning planning : {paper_planning(), portable_planning()}) {
      std::vector<PlanCost> costs;
      for (const double effort : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0}) {
        planning.options.effort = effort;
        const Plan plan = make_plan(problem, planning.options);
        ASSERT_EQ(find_faults(plan), std::vector<std::string>{}) << planning.name << ", " << describe(problem);
        EXPECT_EQ(plan.steps(), make_plan(problem, planning.options).steps());
        unproved += plan.cost.optimal ? 0 : 1;
        costs.push_back(plan.cost);
      }
      for (const PlanCost& less : costs) {
        EXPECT_GE(less.total, costs.back().total) << planning.name << ", " << describe(problem);
        EXPECT_LE(less.lower_bound, costs.back().total) << planning.name << ", " << describe(problem);
      }
    }
  }
  EXPECT_GT(unproved, 50);
}

// It took seconds when every judgement listed all pairs of tiles, and ended undecided.
TEST(WorkBudget, proves_plans_of_ten_dimensions_on_a_mixed_mesh) {
  const Problem problem = problem_of("a0=64,a1=6,a2=5,a3=5", "[1{a0}64, 2, 6{a2}30, 5, 2, 6, 16, 10{a1}60, 1, 1]",
                                     "[64, 2, 5{a1}30, 1{a3}5, 2, 6, 1{a0:(1)16}16, 3{a2,a0:(16)4}60, 1, 1]");
  const Plan plan = make_plan(problem, paper_planning().options);
  EXPECT_EQ(plan.cost.total, 115200);
  EXPECT_TRUE(plan.cost.optimal);
}

}  // namespace
}  // namespace retile::test
