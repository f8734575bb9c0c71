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

#include "retile/plan/groups.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/path_search.h"
#include "retile/planner/work_budget.h"

namespace retile {

// Per layer, the tile that each device goes through.
using Routes = std::vector<TileTable>;

// The digits (indices into Mesh::prime_parts()) that cut each dimension, major to minor.
using DigitTable = std::vector<std::vector<int>>;

// The digits of a type on a mesh of a single prime, and the type again.
DigitTable digit_table(const DistributedType& type);
DistributedType type_of(const Problem& problem, const DigitTable& digits);

// What a router cannot tell within the budget is undecided; routes() needs none.
class Router {
 public:
  virtual ~Router() = default;
  virtual Verdict judge(std::span<const Cuts> layers) = 0;
  // The routes of layers that were judged to lower.
  virtual Routes routes(std::span<const Cuts> layers) = 0;
  // The same as digits per layer, where that is all it takes: no memory per device.
  virtual std::optional<std::vector<DigitTable>> digit_routes(std::span<const Cuts>) { return std::nullopt; }
};

// For meshes of a single prime: levels of cuts are digits, and routing them is linear algebra over the
// prime's field. Its work depends on the number of digits, not of devices. Up to 31 digits.
std::unique_ptr<Router> make_digit_router(const Problem& problem, const CutProblem& cuts, WorkBudget& budget);

// For any mesh: tables of devices. Exact while the search for routes stays within its tries.
std::unique_ptr<Router> make_table_router(const Problem& problem, const CutProblem& cuts, WorkBudget& budget);

// The layers of a path.
std::vector<Cuts> layers_of(const CutProblem& cuts, const NormalPath& path);

// The tiles that a type gives the devices.
TileTable tile_table(const DistributedType& type);

}  // namespace retile
