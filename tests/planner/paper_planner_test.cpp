// The planner of the paper's collectives on the paper's own examples, and the shape of its plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"
#include "tests/support/weak_search.h"

namespace retile::test {
namespace {

Plan paper_plan(const Problem& problem) {
  Plan plan = make_plan(problem, paper_planning().options);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << describe(problem);
  EXPECT_TRUE(plan.cost.optimal) << describe(problem);
  EXPECT_LE(plan.memory.peak, std::max(plan.memory.source, plan.memory.target)) << describe(problem);
  return plan;
}

// --- Examples and figures.

TEST(PaperPlanner, example_factor_decomposition_never_gathers) {
  const Plan plan = paper_plan(problem_of("x=4,y=6", "[3{\"x\"}12, 2{\"y\"}12]", "[2{\"y\"}12, 3{\"x\"}12]"));
  EXPECT_EQ(plan.memory.peak, 6);
  EXPECT_EQ(kinds(plan).find('g'), std::string::npos) << steps_of(plan);
  EXPECT_EQ(plan.cost.total, 18);
}

TEST(PaperPlanner, ex_extra_permutation_is_one_alltoall) {
  for (const Problem& problem :
       {problem_of("a=8", "[1{a}8, 8]", "[8, 1{a}8]"), problem_of("a=2,b=2,c=2", "[1{a,b,c}8, 8]", "[8, 1{a,b,c}8]")}) {
    const Plan plan = paper_plan(problem);
    EXPECT_EQ(steps_of(plan), "alltoall(0 -> 1; 8)");
    EXPECT_EQ(plan.cost.total, 8);
  }
}

TEST(PaperPlanner, fig_oversharding_costs_384) {
  const Plan plan = paper_plan(problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]"));
  EXPECT_EQ(plan.cost.total, 384);
  EXPECT_EQ(plan.cost.lower_bound, 384);
}

TEST(PaperPlanner, slices_along_the_right_axis) {
  const Plan plan = paper_plan(problem_of("x=4,y=4", "[16]", "[4{\"x\"}16]"));
  EXPECT_EQ(steps_of(plan), "dynslice(0; 4)");
  EXPECT_EQ(plan.cost.total, 0);
}

// A device that slices what it will need takes no part in the permutation.
TEST(PaperPlanner, slices_toward_the_target_before_a_permutation) {
  const Plan plan = paper_plan(problem_of("a=2,b=2,c=2", "[8{a}16]", "[4{b,c}16]"));
  ASSERT_EQ(plan.steps().size(), 2U);
  const std::vector<DevicePair>& pairs = *std::get<PermuteStep>(plan.steps()[1].operation).pairs;
  EXPECT_EQ(std::count_if(pairs.begin(), pairs.end(), [](const DevicePair& p) { return p.source != p.target; }), 4);
}

// Groups that follow mesh axes need 6.
TEST(PaperPlanner, chooses_groups_freely) {
  const Plan plan = paper_plan(problem_of("a=2,b=2,c=2", "[4, 1{a,b}4]", "[1{a,c}4, 4]"));
  EXPECT_EQ(plan.cost.total, 4);
  EXPECT_EQ(kinds(plan), "a");
}

struct Row {
  const char* source;
  const char* target;
  std::int64_t cost;
};

// Two steps each, at the price of the figure's better sequence.
TEST(PaperPlanner, fig_collective_sequences) {
  const std::int64_t first = 32 * 128;
  const std::int64_t others = 32 * 512 * 32;
  const Row rows[] = {
      {"[32{x,y}512, 128]", "[128{x}512, 32{y}128]", 2 * first},
      {"[32{x}128, 512, 32{y}128]", "[128, 32{y,x}512, 128]", 2 * others},
      {"[32{x}128, 512, 32{y}128]", "[128, 128{y}512, 128]", others + 4 * others},
  };
  for (const Row& row : rows) {
    const Plan plan = paper_plan(problem_of("x=4,y=4", row.source, row.target));
    EXPECT_EQ(plan.cost.total, row.cost) << row.source << " to " << row.target << ": " << steps_of(plan);
    EXPECT_EQ(plan.steps().size(), 2U) << row.source << " to " << row.target << ": " << steps_of(plan);
  }
}

TEST(PaperPlanner, tbl_adversarial_stays_within_memory) {
  const char* mesh = "a=2,b=2,c=2";
  const Problem problems[] = {
      problem_of(mesh, "[360, 184{c:2}368, 320]", "[90{c:2,a:2}360, 368, 160{b:2}320]"),
      problem_of(mesh, "[80, 40{c:2}80, 72, 64]", "[40{b:2}80, 80, 36{c:2}72, 64]"),
      problem_of(mesh, "[296, 360, 156{c:2}312]", "[74{b:2,c:2}296, 180{a:2}360, 312]"),
      problem_of(mesh, "[8{c:2}16, 16, 16, 8{a:2}16, 16, 8{b:2}16]", "[16, 16, 16, 16, 16, 8{a:2}16]"),
  };
  for (const Problem& problem : problems) {
    for (const Planning& planning : all_plannings()) {
      const Plan plan = make_plan(problem, planning.options);
      EXPECT_LE(plan.memory.peak, plan.memory.bound) << planning.name << ": " << describe(problem);
      EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << planning.name << ": " << describe(problem);
    }
    paper_plan(problem);
  }
}

// --- The problems of tests/data.

TEST(PaperPlanner, all_planners_solve_the_problems_of_the_file) {
  int covered = 0;
  for (const Problem& problem : file_problems()) {
    for (const Planning& planning : all_plannings()) {
      const Plan plan = make_plan(problem, planning.options);
      EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << planning.name << ": " << describe(problem);
      EXPECT_LE(plan.memory.peak, plan.memory.bound) << planning.name << ": " << describe(problem);
      const bool proved = planning.options.planner == PlannerKind::direct || plan.cost.optimal;
      EXPECT_TRUE(proved) << planning.name << ": " << describe(problem) << ": " << steps_of(plan);
      ++covered;
    }
  }
  EXPECT_EQ(covered, 2000);
}

// --- The shape of plans: thm:normal-form, but for one permutation that stands before the allgathers.

// A slice or a gather is a move between a dimension and itself here.
std::vector<Move> moves_of(const StepOperation& operation) {
  std::vector<Move> moves;
  const auto add = [&](const std::vector<DimensionFactor>& factors) {
    for (const DimensionFactor& change : factors) moves.push_back({change.dimension, change.dimension, change.factor});
  };
  if (const auto* slice = std::get_if<SliceStep>(&operation)) add(slice->slices);
  if (const auto* gather = std::get_if<GatherStep>(&operation)) add(gather->gathers);
  if (const auto* alltoall = std::get_if<AllToAllStep>(&operation)) moves = alltoall->moves;
  return moves;
}

void expect_normal_form(const Problem& problem) {
  const Plan plan = make_plan(problem, paper_planning().options);
  const std::string where = describe(problem) + ": " + steps_of(plan);
  EXPECT_TRUE(std::regex_match(kinds(plan), std::regex("s*a*p?g*"))) << where;
  EXPECT_LE(plan.memory.peak, std::max(plan.memory.source, plan.memory.target)) << where;
  EXPECT_EQ(find_faults(plan), std::vector<std::string>()) << where;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    const Step& step = plan.steps()[i];
    EXPECT_FALSE(step.after == plan.movement.before(i)) << "a step that does nothing: " << where;
    const std::vector<Move> changes = moves_of(step.operation);
    EXPECT_EQ(changes.size(), op_of(step) == StepOp::allpermute ? 0U : 1U) << where;
    if (i == 0 || changes.empty() || op_of(plan.steps()[i - 1]) != op_of(step)) continue;
    const Move previous = moves_of(plan.steps()[i - 1].operation)[0];
    const bool alike = changes[0].from == previous.from && changes[0].to == previous.to;
    EXPECT_FALSE(alike) << "two steps that could be one: " << where;
  }
}

TEST(PaperPlanner, plans_are_in_normal_form_but_for_one_permutation) {
  RandomProblems random(41);
  for (const char* text : {"a=2,b=2,c=2", "a=6", "a=4,b=6", "a=2,b=3,c=5", "a=8,b=8", "a=12", "a=2,b=2,c=2,d=2,e=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 100; ++i) {
      const int rank = 1 + i % 3;
      const Shape global = i % 2 == 0 ? divisible_shape(mesh, rank) : random.shape(rank, {1, 2, 3, 4, 6, 12, 15, 36});
      expect_normal_form(random.problem(mesh, global));
    }
  }
  for (const Problem& problem : file_problems()) expect_normal_form(problem);
}

// --- thm:near-optimal-nf, and the weak optimum below it.

TEST(PaperPlanner, thm_near_optimal_nf_bounds_the_cost) {
  RandomProblems random(42);
  int covered = 0;
  int unproved = 0;
  for (const char* text : {"a=4,b=6", "a=2,b=3,c=5", "a=6,b=6", "a=8,b=8", "a=12", "a=2,b=2,c=2,d=2,e=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 90; ++i) {
      const int rank = 1 + i % 3;
      const Shape global = i % 2 == 0 ? divisible_shape(mesh, rank) : random.shape(rank, {1, 2, 3, 4, 6, 12, 15, 36});
      const Problem problem = random.problem(mesh, global);
      const WeakSearch search(mesh, weaken(require_typed(problem).source()));
      const std::int64_t weak = search.cheapest(require_typed(problem).target().local_shape());
      const Plan plan = make_plan(problem, paper_planning().options);
      EXPECT_LE(weak, plan.cost.lower_bound) << describe(problem);
      EXPECT_LE(plan.cost.lower_bound, plan.cost.total) << describe(problem);
      EXPECT_LE(plan.cost.total, weak + problem.target().local_size()) << describe(problem);
      EXPECT_LE(plan.cost.total, search.cheapest_permuted(require_typed(problem).target().local_shape()))
          << describe(problem);
      unproved += plan.cost.optimal ? 0 : 1;
      ++covered;
    }
  }
  EXPECT_EQ(covered, 540);
  EXPECT_EQ(unproved, 0);
}

}  // namespace
}  // namespace retile::test
