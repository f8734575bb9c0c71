// Lowering: from the grids of a path to the steps of a plan. Written once over tables of tiles and tables of digits
// (grids/tile_table.h): the former give boxes and lists, the latter types and no lists.
//
// A stop is the tiles that devices hold between two steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "retile/base/list.h"
#include "retile/grids/digit_table.h"
#include "retile/grids/tile_table.h"
#include "retile/plan/lists.h"
#include "retile/plan/plan.h"
#include "retile/planner/path_search.h"

namespace retile {

// Up to this many devices a plan's stops are tables, and its groups and pairs are computed with it. Beyond, stops are
// types where the mesh allows, and lists are absent: planning time must not grow with the mesh. The pieces of an
// exchange between grids are never listed: there may be one for each pair of devices, and each device can compute its
// own.
constexpr std::int64_t most_tabled_devices = 256;

inline Step make_step(const Shape& global, StepOperation operation, const TileTable& before, const TileTable& after) {
  const bool is_exchange = std::holds_alternative<ExchangeStep>(operation);
  if (!is_exchange && before.device_count() <= static_cast<std::size_t>(most_tabled_devices)) {
    list_devices(operation, global, before, after);
  }
  return {std::move(operation), placement_of(global, after)};
}

inline Step make_step(const Shape& global, StepOperation operation, const DigitTable& /*before*/,
                      const DigitTable& after) {
  return {std::move(operation), placement_of(global, after)};
}

// The dimensions that `fine` cuts deeper than `coarse`, and the factors by which it does.
inline std::vector<DimensionFactor> factors_between(const Grid& coarse, const Grid& fine) {
  std::vector<DimensionFactor> factors;
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    if (fine[i] > coarse[i]) factors.push_back({static_cast<int>(i), fine[i] / coarse[i]});
  }
  return factors;
}

// --- The stops of a path: the source, after the slices, after each move, the target.

// The stops of a path by these routes, which have one table for each of the path's layers (see routing.h).
template <typename Table>
std::vector<Table> routed_stops(const NormalPath& path, const std::vector<Table>& routes, const Table& target) {
  std::vector<Table> stops{routes.front()};
  Grid grid = path.sliced;
  for (std::size_t k = 0; k + 1 < routes.size(); ++k) {
    stops.push_back(deal(routes[k], routes[k + 1], grid, target));
    if (k < path.moves.size()) grid = grid_after(grid, path.moves[k]);
  }
  stops.push_back(target);
  if (routes.size() == 1) stops.push_back(target);  // a path of slices alone
  return stops;
}

// The stops of a path with a permutation, for which any dealing of tiles will do. The permutation comes after the
// moves: it leads to the tiles that the gathers start from, or to the target.
template <typename Table>
std::vector<Table> permuted_stops(const NormalPath& path, const Table& source, const Table& target) {
  // A device that is dealt what it will need does not receive it in the permutation.
  std::vector<Table> stops{source, deal_toward(source, path.sliced, target)};
  for (const Move& move : path.moves) stops.push_back(recut(stops.back(), move, target));
  if (path.moved != path.target) stops.push_back(deal_toward(target, path.moved, stops.back()));
  stops.push_back(target);
  return stops;
}

// --- Steps.

// Whether slices and gathers go dimension by dimension, as in the paper, or over several at once.
enum class StepWidth { narrow, wide };

template <typename Table>
void add_slice(const Shape& global, const Table& before, const Table& after, std::vector<Step>& steps) {
  SliceStep slice{factors_between(grid_of(before), grid_of(after))};
  if (!slice.slices.empty()) steps.push_back(make_step(global, std::move(slice), before, after));
}

template <typename Table>
void add_gather(const Shape& global, const Table& before, const Table& after, std::vector<Step>& steps) {
  GatherStep gather{factors_between(grid_of(after), grid_of(before)), {}};
  if (!gather.gathers.empty()) steps.push_back(make_step(global, std::move(gather), before, after));
}

// Adds one slice per dimension.
template <typename Table>
void add_slices(const Shape& global, const Table& before, const Table& after, std::vector<Step>& steps) {
  Table current = before;
  for (const DimensionFactor& factor : factors_between(grid_of(before), grid_of(after))) {
    Grid grid = grid_of(current);
    at(grid, factor.dimension) *= factor.factor;
    Table next = coarsen(after, grid);
    steps.push_back(make_step(global, SliceStep{{factor}}, current, next));
    current = std::move(next);
  }
}

// Adds one gather per dimension, small factors first: every later step gathers again what an earlier one gathered.
template <typename Table>
void add_gathers(const Shape& global, const Table& before, const Table& after, std::vector<Step>& steps) {
  std::vector<DimensionFactor> factors = factors_between(grid_of(after), grid_of(before));
  std::stable_sort(factors.begin(), factors.end(),
                   [](const DimensionFactor& a, const DimensionFactor& b) { return a.factor < b.factor; });
  Table current = before;
  for (const DimensionFactor& factor : factors) {
    Grid grid = grid_of(current);
    at(grid, factor.dimension) /= factor.factor;
    Table next = coarsen(current, grid);
    steps.push_back(make_step(global, GatherStep{{factor}, {}}, current, next));
    current = std::move(next);
  }
}

// The steps of a path: one per move, one for the permutation, and slices and gathers of the given width.
template <typename Table>
std::vector<Step> path_steps(const Shape& global, const NormalPath& path, const std::vector<Table>& stops,
                             StepWidth width) {
  std::vector<Step> steps;
  const bool is_wide = width == StepWidth::wide;
  (is_wide ? add_slice<Table> : add_slices<Table>)(global, stops[0], stops[1], steps);
  std::size_t stop = 1;
  for (const Move& move : path.moves) {
    steps.push_back(make_step(global, AllToAllStep{{move}, {}}, stops[stop], stops[stop + 1]));
    ++stop;
  }
  if (path.permuted) {
    if (!(stops[stop] == stops[stop + 1])) {
      steps.push_back(make_step(global, PermuteStep{}, stops[stop], stops[stop + 1]));
    }
    ++stop;
  }
  if (stop + 1 < stops.size()) {
    (is_wide ? add_gather<Table> : add_gathers<Table>)(global, stops[stop], stops[stop + 1], steps);
  }
  return steps;
}

}  // namespace retile
