// Routers: by digits and by tables, against each other and against the condition that makes a path lower.
#include "retile/planner/routing.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

// The layers of a random walk of moves that leads to a grid as fine as the target's; empty where the walk strayed.
std::vector<Cuts> random_layers(RandomProblems& random, const CutProblem& cuts) {
  Cuts grid = cuts.source;
  for (std::size_t p = 0; p < cuts.primes.size(); ++p) {
    for (int more = static_cast<int>(random.number(3)), total = cuts.source_total[p]; more > 0; --more) {
      std::int8_t& cut = grid[cuts.at(p, static_cast<int>(random.number(static_cast<std::size_t>(cuts.rank))))];
      const bool fits = total < cuts.supply[p] && cut < cuts.capacity[static_cast<std::size_t>(&cut - grid.data())];
      if (!fits) continue;
      ++cut;
      ++total;
    }
  }
  std::vector<Cuts> layers{cuts.source};
  const std::size_t moves = random.number(4);
  for (std::size_t k = 0; k < moves; ++k) {
    const int from = static_cast<int>(random.number(static_cast<std::size_t>(cuts.rank)));
    const int to = static_cast<int>(random.number(static_cast<std::size_t>(cuts.rank)));
    if (from == to) continue;
    Cuts merged = grid;
    Cuts cut = grid;
    bool moved = false;
    for (std::size_t p = 0; p < cuts.primes.size(); ++p) {
      const int most = std::min<int>(grid[cuts.at(p, from)], cuts.capacity[cuts.at(p, to)] - grid[cuts.at(p, to)]);
      const int count = most <= 0 ? 0 : static_cast<int>(random.number(static_cast<std::size_t>(most) + 1));
      merged[cuts.at(p, from)] = static_cast<std::int8_t>(merged[cuts.at(p, from)] - count);
      cut[cuts.at(p, from)] = merged[cuts.at(p, from)];
      cut[cuts.at(p, to)] = static_cast<std::int8_t>(cut[cuts.at(p, to)] + count);
      moved = moved || count > 0;
    }
    if (!moved) continue;
    layers.push_back(merged);
    grid = cut;
  }
  for (std::size_t at = 0; at < grid.size(); ++at) {
    if (grid[at] < cuts.target[at]) return {};
  }
  if (grid != cuts.target) layers.push_back(cuts.target);
  return layers;
}

// The box of a tile, in units of one over `unit` of the array's length in every dimension.
Box tile_box(const Shape& grid, std::span<const std::int32_t> tile, std::int64_t unit) {
  Box box;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    box.lo.push_back(tile[i] * (unit / grid[i]));
    box.hi.push_back((tile[i] + 1) * (unit / grid[i]));
  }
  return box;
}

// Each pair of tiles p, q of neighbouring layers is used N · |p ∩ q| / |array| times; devices start in their source
// tiles and end in tiles that hold their target tiles.
void expect_even(const Problem& problem, const CutProblem& cuts, std::span<const Cuts> layers,
                 const std::vector<TileTable>& routes) {
  const auto rank = static_cast<std::size_t>(cuts.rank);
  const std::int64_t unit = cuts.device_count;  // every number of tiles divides it
  const std::int64_t whole = product(Shape(rank, unit));
  ASSERT_EQ(routes.size(), layers.size());
  const auto tile_of = [&](std::size_t k, Device device) {
    return std::span(routes[k].tile(static_cast<std::size_t>(device)), rank);
  };
  for (std::size_t k = 0; k < layers.size(); ++k) EXPECT_EQ(routes[k].grid, cuts.grid(layers[k]));
  for (std::size_t k = 0; k + 1 < layers.size(); ++k) {
    const Shape from = cuts.grid(layers[k]);
    const Shape to = cuts.grid(layers[k + 1]);
    std::map<std::pair<Shape, Shape>, std::int64_t> uses;
    std::map<std::pair<Shape, Shape>, std::int64_t> expected;
    for (Device device = 0; device < cuts.device_count; ++device) {
      const Box p = tile_box(from, tile_of(k, device), unit);
      const Box q = tile_box(to, tile_of(k + 1, device), unit);
      const auto common = intersect(p, q);
      ++uses[{p.lo, q.lo}];
      expected[{p.lo, q.lo}] = common ? cuts.device_count * volume(*common) / whole : 0;
    }
    EXPECT_EQ(uses, expected);  // of the pairs that are used; they make up all devices, so there are no others
  }
  const Placement source = problem.source().placement();
  const Placement target = problem.target().placement();
  for (Device device = 0; device < cuts.device_count; ++device) {
    for (std::size_t i = 0; i < rank; ++i) {
      EXPECT_EQ(tile_of(0, device)[i], source.offset(device)[i] / source.local_shape()[i]);
      const std::int64_t last = cuts.grid(layers.back())[i];
      EXPECT_EQ(tile_of(layers.size() - 1, device)[i], target.offset(device)[i] / (cuts.global[i] / last));
    }
  }
}

TEST(Routing, digits_and_tables_agree) {
  RandomProblems random(61);
  std::map<std::pair<Verdict, Verdict>, int> verdicts;
  for (const char* text : {"a=2,b=2,c=2", "a=4,b=2", "a=3,b=3", "a=2,b=2", "a=16", "a=9,b=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 3000; ++i) {
      const Problem problem = random.problem(mesh, random.shape(1 + i % 3, {mesh.device_count(), 2, 3, 12, 36}));
      const CutProblem cuts = cut_problem_of(require_typed(problem));
      const std::vector<Cuts> layers = random_layers(random, cuts);
      if (layers.empty()) continue;
      WorkBudget budget(1);
      const auto digits = make_digit_router(require_typed(problem), cuts, budget);
      const auto tables = make_table_router(require_typed(problem), cuts, budget);
      const Verdict by_digits = digits->judge(layers);
      const Verdict by_tables = tables->judge(layers);
      ++verdicts[{by_digits, by_tables}];
      if (by_digits == Verdict::lowers) expect_even(problem, cuts, layers, *digits->routes(layers));
      if (by_tables == Verdict::lowers) expect_even(problem, cuts, layers, *tables->routes(layers));
      ASSERT_FALSE(HasFailure()) << describe(problem);
    }
  }
  const auto count = [&](Verdict by_digits, Verdict by_tables) { return verdicts[{by_digits, by_tables}]; };
  EXPECT_EQ(count(Verdict::lowers, Verdict::refuted), 0);
  EXPECT_EQ(count(Verdict::refuted, Verdict::lowers), 0);
  EXPECT_GT(count(Verdict::lowers, Verdict::lowers), 0) << count(Verdict::lowers, Verdict::lowers);
  EXPECT_GT(count(Verdict::refuted, Verdict::refuted), 0) << count(Verdict::refuted, Verdict::refuted);
  // What digits cannot decide: whether some function that is no sum of digits would do.
  EXPECT_EQ(count(Verdict::undecided, Verdict::lowers), 0);
  EXPECT_EQ(count(Verdict::undecided, Verdict::refuted), 0);
  EXPECT_EQ(count(Verdict::undecided, Verdict::undecided), 0);
  EXPECT_EQ(count(Verdict::lowers, Verdict::undecided) + count(Verdict::refuted, Verdict::undecided), 0);
}

TEST(Routing, tables_route_evenly_on_mixed_meshes) {
  RandomProblems random(62);
  int lowered = 0;
  for (const char* text : {"a=6", "a=2,b=3", "a=4,b=3", "a=12", "a=2,b=3,c=5"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 1000; ++i) {
      const Problem problem = random.problem(mesh, random.shape(1 + i % 3, {mesh.device_count(), 2, 6, 12}));
      const CutProblem cuts = cut_problem_of(require_typed(problem));
      const std::vector<Cuts> layers = random_layers(random, cuts);
      if (layers.empty()) continue;
      WorkBudget budget(1);
      const auto tables = make_table_router(require_typed(problem), cuts, budget);
      if (tables->judge(layers) != Verdict::lowers) continue;
      expect_even(problem, cuts, layers, *tables->routes(layers));
      ASSERT_FALSE(HasFailure()) << describe(problem);
      ++lowered;
    }
  }
  EXPECT_GT(lowered, 500);
}

// Routes by digits alone, without tables, are the same routes.
TEST(Routing, digit_routes_are_the_routes_as_types) {
  RandomProblems random(63);
  int covered = 0;
  for (const char* text : {"a=2,b=2,c=2", "a=4,b=4", "a=9,b=3"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 1000; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      const CutProblem cuts = cut_problem_of(require_typed(problem));
      const std::vector<Cuts> layers = random_layers(random, cuts);
      WorkBudget budget(1);
      const auto router = make_digit_router(require_typed(problem), cuts, budget);
      if (layers.empty() || router->judge(layers) != Verdict::lowers) continue;
      const auto digits = router->digit_routes(layers);
      if (!digits) continue;
      const std::vector<TileTable> routes = *router->routes(layers);
      for (std::size_t k = 0; k < layers.size(); ++k) {
        const Placement boxes = placement_of(problem.source().global_shape(), (*digits)[k]);
        ASSERT_EQ(routes[k], tile_table(boxes)) << describe(problem);
      }
      ++covered;
    }
  }
  EXPECT_GT(covered, 500);
}

// Nothing more is decided, but what was decided can still be had.
TEST(Routing, gives_routes_after_the_budget_is_spent) {
  RandomProblems random(65);
  int covered = 0;
  for (const char* text : {"a=4,b=3", "a=2,b=2,c=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 3000; ++i) {
      const Problem problem = random.problem(mesh, divisible_shape(mesh, 1 + i % 3));
      const CutProblem cuts = cut_problem_of(require_typed(problem));
      const std::vector<Cuts> layers = random_layers(random, cuts);
      if (layers.size() < 3) continue;
      WorkBudget budget(1);
      const auto tables = make_table_router(require_typed(problem), cuts, budget);
      const Verdict verdict = tables->judge(layers);
      budget.spend(budget.left());
      if (verdict == Verdict::lowers) {
        expect_even(problem, cuts, layers, *tables->routes(layers));
        ++covered;
      }
      EXPECT_NE(make_table_router(require_typed(problem), cuts, budget)->judge(layers), Verdict::lowers)
          << describe(problem);
    }
  }
  EXPECT_GT(covered, 30);
}

// A level that stays from source to target has one digit there, or the path does not lower.
TEST(Routing, refutes_a_kept_level_with_two_digits) {
  const Problem problem = problem_of("a=2,b=2", "[1{a}2, 2]", "[1{b}2, 2]");
  const CutProblem cuts = cut_problem_of(require_typed(problem));
  const std::vector<Cuts> layers{cuts.source};
  WorkBudget budget(1);
  EXPECT_EQ(make_digit_router(require_typed(problem), cuts, budget)->judge(layers), Verdict::refuted);
  EXPECT_EQ(make_table_router(require_typed(problem), cuts, budget)->judge(layers), Verdict::refuted);
}

// A digit that leaves one dimension may not come back in another at once: the two tiles would not meet evenly.
TEST(Routing, refutes_a_digit_in_two_levels_at_once) {
  const Problem problem = problem_of("a=2,b=2", "[1{a}2, 2]", "[2, 1{a}2]");
  const CutProblem cuts = cut_problem_of(require_typed(problem));
  const std::vector<Cuts> layers{cuts.source, cuts.target};  // slice, then gather
  WorkBudget budget(1);
  EXPECT_EQ(make_digit_router(require_typed(problem), cuts, budget)->judge(layers), Verdict::refuted);
  EXPECT_EQ(make_table_router(require_typed(problem), cuts, budget)->judge(layers), Verdict::refuted);
  const Problem other = problem_of("a=2,b=2", "[1{a}2, 2]", "[2, 1{b}2]");
  EXPECT_EQ(make_digit_router(require_typed(other), cuts, budget)->judge(layers), Verdict::lowers);
  EXPECT_EQ(make_table_router(require_typed(other), cuts, budget)->judge(layers), Verdict::lowers);
}

}  // namespace
}  // namespace retile::test
