// The search for the cheapest sequence of the paper's collectives (sec:shortest-paths), in normal form:
// slice, move cuts between dimensions, gather. docs/theory.md proves that no other path need be looked at.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "retile/costs/cost_model.h"
#include "retile/grids/grid.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/work_budget.h"

namespace retile {

// A weak path in normal form: grids are numbers of tiles per dimension.
struct NormalPath {
  Grid source;
  Grid sliced;  // after the slices
  std::vector<Move> moves;
  Grid moved;  // after the moves
  Grid target;
  bool permuted = false;  // with a permutation after the moves
};

// What is known of a path's lowering without a permutation.
enum class Verdict { lowers, refuted, undecided };

// Judges the layers of a path: the source's cuts, the cuts after each merge before they are cut anew, and
// the target's where the path ends in gathers.
using Judge = std::function<Verdict(std::span<const Cuts> layers)>;

// What a node of the search takes from the budget. A judge takes what it needs beyond that by itself.
constexpr std::int64_t units_of_node = 30;

struct SearchResult {
  NormalPath path;
  std::int64_t cost = 0;
  std::int64_t lower_bound = 0;  // on what any sequence of the paper's collectives costs
  bool proved = false;           // every cheaper path was refuted
};

constexpr std::int64_t any_cost = std::numeric_limits<std::int64_t>::max();

// Where the budget ends the search, what is cheaper than the best path so far is no longer refuted. Looks only for
// paths that cost less than `below`, and whose devices hold no more than the problem allows: where there is none, that
// is the cost of the result, and its path is empty.
SearchResult search_paths(const CutProblem& problem, const Judge& judge, WorkBudget& budget,
                          const CostModel& cost_model = paper_model(), std::int64_t below = any_cost);

}  // namespace retile
