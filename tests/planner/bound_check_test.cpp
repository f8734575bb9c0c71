// Lower bounds that plans state: confirmed, refuted or not checked.
#include "retile/planner/bound_check.h"

#include <gtest/gtest.h>

#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

// "confirmed: wide proves 18".
std::string check(const Plan& plan) {
  const BoundCheck bound = check_bound(plan);
  return std::string(name_of(bound.verdict)) + ": " + bound.reason;
}

// A plan of the planner's, with another lower bound.
Plan claiming(Plan plan, std::int64_t bound) {
  plan.cost.lower_bound = bound;
  plan.cost.over.clear();
  plan.cost.optimal = plan.cost.total == bound;
  return plan;
}

Plan made_by(std::string planner, Plan plan) {
  plan.planner = std::move(planner);
  return plan;
}

Plan plan_under(PlannerKind kind, const Problem& problem, const CostModel& model = paper_model()) {
  PlanOptions options;
  options.planner = kind;
  options.cost_model = &model;
  return make_plan(problem, options);
}

// Gathered along a, then sliced along b: 24, where 18 would do.
Problem small_problem() { return problem_of("a=2,b=2", "[2{a}4, 6]", "[4, 3{b}6]"); }

// Without exchanges a plan of four steps is found, and that three would do is not refuted.
Problem open_problem() { return problem_of("a=2,b=5,c=3", "[5{a}10, 8{c}24, 6{b}30]", "[2{b}10, 12{a}24, 10{c}30]"); }

TEST(BoundCheck, confirms_what_planners_prove) {
  RandomProblems random(91);
  for (const char* text : {"a=2,b=2", "a=6", "a=2,b=5,c=3", "a=4,b=6", "a=8,b=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 40; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      for (const CostModel* model : {&paper_model(), &volume_model()}) {
        for (const Planning& planning : all_plannings(*model)) {
          const BoundCheck bound = check_bound(make_plan(problem, planning.options));
          EXPECT_EQ(bound.verdict, BoundVerdict::confirmed)
              << planning.name << ": " << describe(problem) << ": " << bound.reason;
        }
      }
    }
  }
}

TEST(BoundCheck, never_refutes_what_more_or_less_effort_proves) {
  RandomProblems random(92);
  const Mesh mesh = parse_mesh("a=2,b=5,c=3");
  for (int i = 0; i < 60; ++i) {
    const Problem problem = random.problem(mesh, divisible_shape(mesh, 2 + i % 3));
    for (Planning planning : {paper_planning(), portable_planning()}) {
      for (const double effort : {1e-4, 20.0}) {
        planning.options.effort = effort;
        const BoundCheck bound = check_bound(make_plan(problem, planning.options));
        EXPECT_NE(bound.verdict, BoundVerdict::refuted) << planning.name << ": " << describe(problem) << bound.reason;
      }
    }
  }
}

TEST(BoundCheck, says_of_which_plans_a_bound_holds) {
  const Problem problem = problem_of("a=2,b=5,c=3", "[40{c}120, 15{b,a}150]", "[12{b,a}120, 50{c}150]");
  const Plan wide = make_plan(problem, wide_planning().options);
  const Plan portable = make_plan(problem, portable_planning().options);
  EXPECT_EQ(check(wide), "confirmed: wide proves 600");
  EXPECT_EQ(check(portable), "confirmed: wide without exchanges proves 1,800");
  EXPECT_EQ(check(claiming(portable, 600)), "confirmed: wide proves 600");
  EXPECT_EQ(check(plan_under(PlannerKind::paper, problem)), "confirmed: paper proves 1,800");
}

TEST(BoundCheck, refutes_a_bound_above_a_plan_that_the_planner_makes) {
  const Plan plan = plan_under(PlannerKind::gather_slice, small_problem());
  EXPECT_EQ(plan.cost.total, 24);
  EXPECT_EQ(check(made_by("paper", claiming(plan, 24))), "refuted: paper has a plan that costs 12");
  EXPECT_EQ(check(made_by("paper", claiming(plan, 13))), "refuted: paper has a plan that costs 12");
  EXPECT_EQ(check(made_by("paper", claiming(plan, 12))), "confirmed: paper proves 12");
  EXPECT_EQ(check(made_by("wide", claiming(plan, 24))), "refuted: wide without exchanges has a plan that costs 12");
}

TEST(BoundCheck, refutes_what_a_planner_without_a_search_does_not_prove) {
  const Plan plan = plan_under(PlannerKind::gather_slice, small_problem());
  EXPECT_EQ(check(claiming(plan, 24)), "refuted: gather-slice proves 12, and no more with any effort");
  const Plan volume = plan_under(PlannerKind::paper, open_problem(), volume_model());
  EXPECT_EQ(check(claiming(volume, volume.cost.total)), "refuted: paper proves 240, and no more with any effort");
}

// An exchange that changes the local size is no wide step.
TEST(BoundCheck, refutes_a_plan_that_is_cheaper_than_all_of_its_planners) {
  const Problem problem = problem_of("a=2,b=2,c=2,d=2", "[8{a}16, 8{b}16]", "[16, 8{a}16]");
  EXPECT_EQ(check(made_by("wide", plan_under(PlannerKind::direct, problem))),
            "refuted: wide proves that none of its plans costs less than 144, and this one costs 128");
}

TEST(BoundCheck, leaves_open_what_more_effort_may_prove) {
  const Plan plan = make_plan(open_problem(), portable_planning().options);
  EXPECT_EQ(check(plan), "confirmed: wide without exchanges proves 720");
  EXPECT_EQ(check(claiming(plan, 960)),
            "not checked: wide without exchanges proves 720 with the default effort, and finds no plan below 960");
}

TEST(BoundCheck, of_planners_that_are_not_known_knows_what_every_plan_costs) {
  const Plan plan = plan_under(PlannerKind::gather_slice, small_problem());
  EXPECT_EQ(check(made_by("xla", claiming(plan, 12))), "confirmed: whatever the planner, no plan costs less than 12");
  EXPECT_EQ(check(made_by("xla", claiming(plan, 13))), "not checked: \"xla\" is no planner of retile");
  EXPECT_EQ(check(made_by("auto", claiming(plan, 13))), "not checked: \"auto\" is no planner of retile");
  EXPECT_EQ(check(made_by("", claiming(plan, 13))), "not checked: the plan names no planner");
}

TEST(BoundCheck, refutes_what_is_not_proved_of_all_plans) {
  Plan plan = plan_under(PlannerKind::wide, problem_of("a=4,b=2", "[1{a,b}8, 2]", "[8, 1{b}2]"));
  EXPECT_EQ(plan.cost.over, "wide plans");
  EXPECT_EQ(check(plan), "confirmed: wide proves 10");
  plan.cost.over = all_plans;
  EXPECT_EQ(check(plan), "refuted: over all plans no more than 8 is proved");
  EXPECT_EQ(check(made_by("xla", plan)), "refuted: over all plans no more than 8 is proved");
}

TEST(BoundCheck, leaves_open_what_the_planner_cannot_plan) {
  const Problem problem = problem_of("a=1048576,b=3", "[1{a}1048576, 6]", "[1048576, 2{b}6]");
  const Plan plan = made_by("wide", plan_under(PlannerKind::gather_slice, problem));
  EXPECT_EQ(check(claiming(plan, plan.cost.total)),
            "not checked: wide cannot plan it: 3145728 devices are too many for a mesh whose size has several prime "
            "factors");
}

}  // namespace
}  // namespace retile::test
