// The search over paths by itself, with judges that are known: against plain searches over weak types.
#include "retile/planner/path_search.h"

#include <gtest/gtest.h>

#include "retile/base/arithmetic.h"
#include "retile/planner/routing.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"
#include "tests/support/weak_search.h"

namespace retile::test {
namespace {

Judge always(Verdict verdict) {
  return [verdict](std::span<const Cuts>) { return verdict; };
}

SearchResult search_with(const CutProblem& cuts, const Judge& judge) {
  WorkBudget budget(1);
  return search_paths(cuts, judge, budget);
}

std::vector<Problem> larger_problems(int per_mesh) {
  RandomProblems random(21);
  std::vector<Problem> problems;
  for (const char* text : {"a=4,b=6", "a=2,b=3,c=5", "a=6,b=6", "a=8,b=8", "a=12", "a=2,b=2,c=2,d=2,e=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < per_mesh; ++i) {
      const int rank = 1 + i % 3;
      const Shape global = i % 2 == 0 ? divisible_shape(mesh, rank) : random.shape(rank, {1, 2, 3, 4, 6, 12, 15, 36});
      problems.push_back(random.problem(mesh, global));
    }
  }
  return problems;
}

// Where every path lowers, the cheapest is the weak optimum: nothing is lost by looking at normal forms alone.
TEST(PathSearch, finds_the_weak_optimum_where_all_paths_lower) {
  int covered = 0;
  for (const Problem& problem : larger_problems(60)) {
    const WeakSearch search(require_typed(problem).mesh(), weaken(require_typed(problem).source()));
    const SearchResult result = search_with(cut_problem_of(require_typed(problem)), always(Verdict::lowers));
    EXPECT_EQ(result.cost, search.cheapest(require_typed(problem).target().local_shape())) << describe(problem);
    EXPECT_TRUE(result.proved) << describe(problem);
    EXPECT_FALSE(result.path.permuted) << describe(problem);
    ++covered;
  }
  EXPECT_EQ(covered, 360);
}

// Where none does, it is the shortest way through two copies of the weak graph.
TEST(PathSearch, prices_the_permutation_where_it_is_cheapest) {
  int covered = 0;
  for (const Problem& problem : larger_problems(60)) {
    const WeakSearch search(require_typed(problem).mesh(), weaken(require_typed(problem).source()));
    const SearchResult result = search_with(cut_problem_of(require_typed(problem)), always(Verdict::refuted));
    EXPECT_EQ(result.cost, search.cheapest_permuted(require_typed(problem).target().local_shape()))
        << describe(problem);
    EXPECT_TRUE(result.proved) << describe(problem);
    EXPECT_TRUE(result.path.permuted) << describe(problem);
    ++covered;
  }
  EXPECT_EQ(covered, 360);
}

TEST(PathSearch, claims_nothing_above_what_is_undecided) {
  int cheaper_unknown = 0;
  for (const Problem& problem : larger_problems(30)) {
    const WeakSearch search(require_typed(problem).mesh(), weaken(require_typed(problem).source()));
    const SearchResult result = search_with(cut_problem_of(require_typed(problem)), always(Verdict::undecided));
    EXPECT_EQ(result.cost, search.cheapest_permuted(require_typed(problem).target().local_shape()))
        << describe(problem);
    EXPECT_EQ(result.lower_bound, search.cheapest(require_typed(problem).target().local_shape())) << describe(problem);
    EXPECT_FALSE(result.proved) << describe(problem);
    ++cheaper_unknown;
  }
  EXPECT_EQ(cheaper_unknown, 180);
}

// The path as steps: its grids follow from each other, and its cost from them.
void expect_consistent(const Problem& problem, const SearchResult& result) {
  const NormalPath& path = result.path;
  const Shape global = problem.source().global_shape();
  const auto size_of = [&](const Shape& grid) { return product(global) / product(grid); };
  std::int64_t cost = 0;
  Shape grid = path.sliced;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    EXPECT_EQ(path.source[i], global[i] / require_typed(problem).source().local_shape()[i]);
    EXPECT_EQ(path.target[i], global[i] / require_typed(problem).target().local_shape()[i]);
    EXPECT_EQ(path.sliced[i] % path.source[i], 0);
    EXPECT_EQ(path.moved[i] % path.target[i], 0);
  }
  const Move* previous = nullptr;
  for (const Move& move : path.moves) {
    const auto from = static_cast<std::size_t>(move.from);
    const auto to = static_cast<std::size_t>(move.to);
    EXPECT_NE(from, to);
    EXPECT_GT(move.factor, 1);
    EXPECT_EQ(grid[from] % move.factor, 0);
    EXPECT_TRUE(previous == nullptr || previous->from != move.from || previous->to != move.to);
    grid[from] /= move.factor;
    grid[to] *= move.factor;
    EXPECT_EQ(global[to] % grid[to], 0);
    cost += size_of(grid);
    previous = &move;
  }
  EXPECT_EQ(grid, path.moved);
  EXPECT_EQ(require_typed(problem).mesh().device_count() % product(path.sliced), 0);
  if (path.permuted) cost += size_of(grid);
  std::vector<std::int64_t> factors;
  for (std::size_t i = 0; i < grid.size(); ++i) factors.push_back(grid[i] / path.target[i]);
  std::sort(factors.begin(), factors.end());
  std::int64_t size = size_of(grid);
  for (const std::int64_t factor : factors) {
    if (factor == 1) continue;
    size *= factor;
    cost += size;
  }
  EXPECT_EQ(cost, result.cost);
}

TEST(PathSearch, paths_are_in_normal_form_and_cost_what_they_say) {
  int covered = 0;
  for (const Problem& problem : larger_problems(60)) {
    for (const Verdict verdict : {Verdict::lowers, Verdict::refuted}) {
      expect_consistent(problem, search_with(cut_problem_of(require_typed(problem)), always(verdict)));
      ++covered;
      ASSERT_FALSE(testing::Test::HasFailure()) << describe(problem);
    }
  }
  EXPECT_EQ(covered, 720);
}

// The number of tiles of each layer, as the routers read them.
TEST(PathSearch, shows_the_judge_the_layers_of_its_path) {
  int covered = 0;
  for (const Problem& problem : larger_problems(30)) {
    const CutProblem cuts = cut_problem_of(require_typed(problem));
    std::vector<Cuts> judged;
    const Judge judge = [&](std::span<const Cuts> layers) {
      judged.assign(layers.begin(), layers.end());
      return Verdict::lowers;
    };
    const SearchResult result = search_with(cuts, judge);
    EXPECT_EQ(judged, layers_of(cuts, result.path)) << describe(problem);
    ++covered;
  }
  EXPECT_EQ(covered, 180);
}

// --- Searches that end early.

SearchResult search_within(const CutProblem& cuts, Verdict verdict, std::int64_t most_nodes) {
  WorkBudget budget(static_cast<double>(most_nodes * units_of_node) / static_cast<double>(WorkBudget::units));
  return search_paths(cuts, always(verdict), budget);
}

TEST(PathSearch, has_a_path_and_an_honest_bound_however_early_it_ends) {
  int unproved = 0;
  for (const Problem& problem : larger_problems(30)) {
    const CutProblem cuts = cut_problem_of(require_typed(problem));
    for (const Verdict verdict : {Verdict::lowers, Verdict::refuted}) {
      const SearchResult all = search_with(cuts, always(verdict));
      for (const std::int64_t most_nodes : {1, 2, 5, 10, 30, 100, 300, 1000}) {
        const SearchResult some = search_within(cuts, verdict, most_nodes);
        expect_consistent(problem, some);
        EXPECT_LE(some.lower_bound, all.cost) << describe(problem) << " within " << most_nodes;
        EXPECT_LE(all.cost, some.cost) << describe(problem) << " within " << most_nodes;
        EXPECT_EQ(some.proved, some.lower_bound == some.cost) << describe(problem);
        ASSERT_FALSE(testing::Test::HasFailure()) << describe(problem) << " within " << most_nodes;
        unproved += some.proved ? 0 : 1;
      }
    }
  }
  EXPECT_GT(unproved, 300);
}

// Six dimensions give one cut each to a seventh: more ways than the search may look at.
TEST(PathSearch, has_a_path_where_there_are_too_many) {
  const Problem problem =
      problem_of("a=2,b=2,c=2,d=2,e=2,f=2", "[64, 32{a}64, 32{b}64, 32{c}64, 32{d}64, 32{e}64, 32{f}64]",
                 "[1{a,b,c,d,e,f}64, 64, 64, 64, 64, 64, 64]");
  const SearchResult result = search_with(cut_problem_of(require_typed(problem)), always(Verdict::refuted));
  expect_consistent(problem, result);
  EXPECT_EQ(result.path.moves.size(), 6U);
  EXPECT_LE(result.lower_bound, 6 * problem.source().local_size());
}

TEST(PathSearch, takes_no_steps_without_devices_or_dimensions) {
  for (const Problem& problem : {problem_of("a=1", "[4]", "[4{a}4]"), problem_of("a=2", "[]", "[]")}) {
    const SearchResult result = search_with(cut_problem_of(require_typed(problem)), always(Verdict::lowers));
    EXPECT_EQ(result.cost, 0);
    EXPECT_TRUE(result.proved);
    EXPECT_TRUE(result.path.moves.empty());
  }
}

}  // namespace
}  // namespace retile::test
