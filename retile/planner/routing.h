// Routing: whether a path lowers without a permutation, and if so, where every device goes.
//
// A path is read as layers of grids: the source's, the coarse ones between the merge and the cut of each
// move, and the target's where gathers end the path. A device starts in its source tile and ends in the
// tile of the last layer that holds its target tile. The path lowers iff devices can be routed so that each
// pair of tiles p, q of neighbouring layers is used by exactly N · |p ∩ q| / |array| of the N devices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "retile/grids/digit_table.h"
#include "retile/grids/tile_table.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/path_search.h"
#include "retile/planner/work_budget.h"

namespace retile {

class Router {
 public:
  virtual ~Router() = default;
  // Judges the path of these layers. Work counts against the budget; once that is spent, the verdict is undecided.
  virtual Verdict judge(std::span<const Cuts> layers) = 0;
  // The tile of each layer that each device goes through; ignores the budget. Layers that were judged to lower have
  // routes.
  virtual std::optional<std::vector<TileTable>> routes(std::span<const Cuts> layers) = 0;
  // Routes as digits per layer, which take no memory per device; nothing where digits do not suffice.
  virtual std::optional<std::vector<DigitTable>> digit_routes(std::span<const Cuts>) { return std::nullopt; }
};

// A router for meshes of a single prime: levels of cuts are digits, and routing them is linear algebra over the prime's
// field. Its work depends on the number of digits, not of devices. Up to 31 digits.
std::unique_ptr<Router> make_digit_router(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget);

// A router for any mesh, by tables of devices. Exact unless the search for routes runs out of tries.
std::unique_ptr<Router> make_table_router(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget);

// The layers of a path.
std::vector<Cuts> layers_of(const CutProblem& cuts, const NormalPath& path);

}  // namespace retile
