// Lowering: from a path and the routes of its devices to the steps of a plan.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/plan/groups.h"
#include "retile/plan/plan.h"
#include "retile/planner/path_search.h"
#include "retile/planner/problem.h"
#include "retile/planner/routing.h"

namespace retile {

// Up to this many devices a plan's stages are tables and its lists are worked out with it. Beyond, stages
// are types where the mesh allows, and lists are left symbolic: planning time must not grow with the mesh.
constexpr std::int64_t most_tabled_devices = 256;

// What the devices hold between two stages of a plan: slices, moves, a permutation, gathers.
using Stages = std::vector<GridTable>;

// The boxes at every stage of a path that lowers by these routes: the source, after the slices, after each
// move, the target.
Stages routed_stages(const Problem& problem, const NormalPath& path, const Routes& routes);

// The same for a path with a permutation, where every dealing will do. The permutation leads from the last
// stage but one before the gathers, or the end, to the last one there.
Stages permuted_stages(const Problem& problem, const NormalPath& path);

// One step per dimension sliced or gathered, one per move, one for the permutation.
std::vector<Step> narrow_steps(const Problem& problem, const NormalPath& path, const Stages& stages);

// The grid after a move.
Shape grid_after(Shape grid, const CutMove& move);

// The tiles of a coarser grid that hold the table's tiles.
GridTable coarsen(const GridTable& table, const Shape& grid);

// Deals the devices that hold the same two tiles, one of each grid, evenly to the tiles of the finer grid
// that lie in both.
GridTable deal(const GridTable& first, const GridTable& second, const Shape& finer);
// The same within the tiles of one grid.
GridTable deal(const GridTable& within, const Shape& finer);

// The same, each device with a tile near the one it has in `wish`, as far as an even dealing allows.
GridTable deal_toward(const GridTable& within, const Shape& finer, const GridTable& wish);

Placement placement_of(const Shape& global, const GridTable& table);

// A step between two tables, its lists worked out up to most_tabled_devices.
Step table_step(const Shape& global, StepOp op, std::vector<Move> moves, const GridTable& before,
                const GridTable& after);

}  // namespace retile
