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

// A weak path in normal form. Grids are numbers of tiles per dimension.
struct NormalPath {
  Grid source;
  Grid sliced;  // after the slices
  std::vector<Move> moves;
  Grid moved;  // after the moves
  Grid target;
  bool permuted = false;  // a permutation follows the moves
};

// What is known about lowering a path without a permutation.
enum class Verdict { lowers, refuted, undecided };

// Judges a path by its layers: the source's cuts, the cuts after each merge and before the array is cut anew, and the
// target's cuts where the path ends in gathers.
using Judge = std::function<Verdict(std::span<const Cuts> layers)>;

// Units of the budget per node of the search. A judge spends more by itself.
constexpr std::int64_t units_of_node = 30;

struct SearchResult {
  NormalPath path;
  std::int64_t cost = 0;
  std::int64_t lower_bound = 0;  // on the cost of any sequence of the paper's collectives
  bool proved = false;           // every cheaper path was refuted
};

constexpr std::int64_t any_cost = std::numeric_limits<std::int64_t>::max();

// The cheapest path that costs less than `below` and on which devices hold no more than the problem allows. Where there
// is none, the result has an empty path and the cost `below`. If the budget ends the search, paths cheaper than the
// best so far are no longer refuted.
SearchResult search_paths(const CutProblem& problem, const Judge& judge, WorkBudget& budget,
                          const CostModel& cost_model = paper_model(), std::int64_t below = any_cost);

}  // namespace retile
