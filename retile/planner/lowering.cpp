#include "retile/planner/lowering.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

std::int64_t tile_number(const GridTable& table, std::size_t device) {
  const std::size_t rank = table.grid.size();
  std::int64_t number = 0;
  for (std::size_t i = 0; i < rank; ++i) number = number * table.grid[i] + table.tiles[device * rank + i];
  return number;
}

std::size_t number_in(const Shape& grid, const Shape& tile) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) number = number * grid[i] + tile[i];
  return static_cast<std::size_t>(number);
}

Shape merged_grid(Shape grid, const CutMove& move) {
  grid[static_cast<std::size_t>(move.from)] /= move.factor;
  return grid;
}

// The devices in an order that puts those with equal keys together, and their ranks among these.
std::vector<std::int64_t> ranks_within(const std::vector<std::int64_t>& keys) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return keys[a] < keys[b]; });
  std::vector<std::int64_t> ranks(keys.size());
  for (std::size_t i = 1; i < order.size(); ++i) {
    ranks[order[i]] = keys[order[i]] == keys[order[i - 1]] ? ranks[order[i - 1]] + 1 : 0;
  }
  return ranks;
}

GridTable source_table(const Problem& problem, const NormalPath& path) {
  return {path.source, tile_table(problem.source())};
}
GridTable target_table(const Problem& problem, const NormalPath& path) {
  return {path.target, tile_table(problem.target())};
}

void add_slices(const Shape& global, const GridTable& before, const GridTable& after, std::vector<Step>& steps) {
  GridTable current = before;
  for (std::size_t i = 0; i < before.grid.size(); ++i) {
    const std::int64_t factor = after.grid[i] / before.grid[i];
    if (factor == 1) continue;
    Shape grid = current.grid;
    grid[i] = after.grid[i];
    GridTable next = coarsen(after, grid);
    steps.push_back(table_step(global, StepOp::dynslice, {{-1, static_cast<int>(i), factor}}, current, next));
    current = std::move(next);
  }
}

// Small factors first: what is gathered early is gathered again with every later step.
void add_gathers(const Shape& global, const GridTable& before, const GridTable& after, std::vector<Step>& steps) {
  std::vector<std::size_t> dimensions;
  for (std::size_t i = 0; i < before.grid.size(); ++i) {
    if (before.grid[i] != after.grid[i]) dimensions.push_back(i);
  }
  const auto factor = [&](std::size_t i) { return before.grid[i] / after.grid[i]; };
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [&](std::size_t a, std::size_t b) { return factor(a) < factor(b); });
  GridTable current = before;
  for (const std::size_t i : dimensions) {
    Shape grid = current.grid;
    grid[i] = after.grid[i];
    GridTable next = coarsen(current, grid);
    steps.push_back(table_step(global, StepOp::allgather, {{static_cast<int>(i), -1, factor(i)}}, current, next));
    current = std::move(next);
  }
}

// Deals every device the free tile that overlaps its wish the most.
class WishDealer {
 public:
  WishDealer(const GridTable& within, const Shape& finer, const GridTable& wish)
      : within_(within),
        wish_(wish),
        dealt_{finer, TileTable(within.tiles.size())},
        choices_(product(finer) / product(within.grid)),
        room_(static_cast<std::size_t>(product(finer)),
              static_cast<std::int32_t>(within.device_count() / product(finer))),
        tile_(finer.size()),
        best_(finer.size()) {}

  GridTable run() {
    std::vector<bool> served(static_cast<std::size_t>(within_.device_count()));
    // First the devices that can have a tile that meets their wish, then the others.
    for (const std::int64_t least_overlap : {1, 0}) {
      for (std::size_t device = 0; device < served.size(); ++device) {
        if (!served[device]) served[device] = serve(device, least_overlap);
      }
    }
    return std::move(dealt_);
  }

 private:
  bool serve(std::size_t device, std::int64_t least_overlap) {
    std::int64_t best_overlap = least_overlap - 1;
    for (std::int64_t choice = 0; choice < choices_; ++choice) {
      const std::int64_t overlap = choose(device, choice);
      if (overlap <= best_overlap || room_[number_in(dealt_.grid, tile_)] == 0) continue;
      best_overlap = overlap;
      best_ = tile_;
    }
    if (best_overlap < least_overlap) return false;
    --room_[number_in(dealt_.grid, best_)];
    std::transform(best_.begin(), best_.end(),
                   dealt_.tiles.begin() + static_cast<std::ptrdiff_t>(device * best_.size()),
                   [](std::int64_t tile) { return static_cast<std::int32_t>(tile); });
    return true;
  }

  // Sets tile_ to a tile within the device's, and returns how much of the wish it overlaps, in units of one
  // over the product of the two grids.
  std::int64_t choose(std::size_t device, std::int64_t choice) {
    std::int64_t overlap = 1;
    for (std::size_t i = tile_.size(); i-- > 0;) {
      const std::size_t at = device * tile_.size() + i;
      const std::int64_t inside = dealt_.grid[i] / within_.grid[i];
      tile_[i] = within_.tiles[at] * inside + choice % inside;
      choice /= inside;
      const std::int64_t lo = std::max(tile_[i] * wish_.grid[i], wish_.tiles[at] * dealt_.grid[i]);
      const std::int64_t hi = std::min((tile_[i] + 1) * wish_.grid[i], (wish_.tiles[at] + 1) * dealt_.grid[i]);
      overlap *= std::max<std::int64_t>(0, hi - lo);
    }
    return overlap;
  }

  const GridTable& within_;
  const GridTable& wish_;
  GridTable dealt_;
  const std::int64_t choices_;
  std::vector<std::int32_t> room_;  // devices that each tile still takes
  Shape tile_;
  Shape best_;
};

}  // namespace

GridTable coarsen(const GridTable& table, const Shape& grid) {
  const std::size_t rank = grid.size();
  GridTable coarse{grid, table.tiles};
  for (std::size_t at = 0; at < coarse.tiles.size(); ++at) {
    const std::size_t i = at % rank;
    coarse.tiles[at] = static_cast<std::int32_t>(coarse.tiles[at] / (table.grid[i] / grid[i]));
  }
  return coarse;
}

Shape grid_after(Shape grid, const CutMove& move) {
  grid[static_cast<std::size_t>(move.from)] /= move.factor;
  grid[static_cast<std::size_t>(move.to)] *= move.factor;
  return grid;
}

GridTable deal(const GridTable& first, const GridTable& second, const Shape& finer) {
  const std::size_t rank = finer.size();
  const auto devices = static_cast<std::size_t>(first.device_count());
  std::vector<std::int64_t> keys(devices);
  const std::int64_t second_tiles = product(second.grid);
  for (std::size_t device = 0; device < devices; ++device) {
    keys[device] = tile_number(first, device) * second_tiles + tile_number(second, device);
  }
  const std::vector<std::int64_t> ranks = ranks_within(keys);
  GridTable dealt{finer, TileTable(first.tiles.size())};
  for (std::size_t device = 0; device < devices; ++device) {
    std::int64_t rest = ranks[device];
    for (std::size_t i = rank; i-- > 0;) {
      const std::int64_t a = finer[i] / first.grid[i];
      const std::int64_t b = finer[i] / second.grid[i];
      const std::int64_t lo = std::max(first.tiles[device * rank + i] * a, second.tiles[device * rank + i] * b);
      const std::int64_t hi =
          std::min((first.tiles[device * rank + i] + 1) * a, (second.tiles[device * rank + i] + 1) * b);
      ensure(lo < hi, "a device goes through tiles that meet");
      dealt.tiles[device * rank + i] = static_cast<std::int32_t>(lo + rest % (hi - lo));
      rest /= hi - lo;
    }
  }
  return dealt;
}

GridTable deal(const GridTable& within, const Shape& finer) { return deal(within, within, finer); }

GridTable deal_toward(const GridTable& within, const Shape& finer, const GridTable& wish) {
  constexpr std::int64_t most_devices = 512;  // the work is quadratic in them
  if (finer == within.grid) return within;
  if (within.device_count() > most_devices) return deal(within, finer);
  return WishDealer(within, finer, wish).run();
}

Stages routed_stages(const Problem& problem, const NormalPath& path, const Routes& routes) {
  // The layers of the path: routes[0] is the source, routes[k] the grid between merge and cut of move k.
  Stages layers{source_table(problem, path)};
  Shape grid = path.sliced;
  for (std::size_t k = 0; k < path.moves.size(); ++k) {
    layers.push_back({merged_grid(grid, path.moves[k]), routes[k + 1]});
    grid = grid_after(grid, path.moves[k]);
  }
  const GridTable target = target_table(problem, path);
  const bool gathers = path.moved != path.target;
  if (gathers) layers.push_back(target);

  Stages stages{layers.front()};
  grid = path.sliced;
  for (std::size_t k = 0; k + 1 < layers.size(); ++k) {
    stages.push_back(deal(layers[k], layers[k + 1], grid));
    if (k < path.moves.size()) grid = grid_after(grid, path.moves[k]);
  }
  stages.push_back(target);
  if (path.moves.empty() && !gathers) stages.insert(stages.begin() + 1, target);
  return stages;
}

Stages permuted_stages(const Problem& problem, const NormalPath& path) {
  const GridTable target = target_table(problem, path);
  Stages stages{source_table(problem, path)};
  // Whoever gets what it will need does not have to be sent it by the permutation.
  stages.push_back(deal_toward(stages.back(), path.sliced, target));
  Shape grid = path.sliced;
  for (const CutMove& move : path.moves) {
    const GridTable merged = coarsen(stages.back(), merged_grid(grid, move));
    grid = grid_after(grid, move);
    stages.push_back(deal_toward(merged, grid, target));
  }
  if (path.moved != path.target) stages.push_back(deal_toward(target, path.moved, stages.back()));
  stages.push_back(target);
  return stages;
}

std::vector<Step> narrow_steps(const Problem& problem, const NormalPath& path, const Stages& stages) {
  const Shape global = problem.source().global_shape();
  std::vector<Step> steps;
  add_slices(global, stages[0], stages[1], steps);
  std::size_t stage = 1;
  for (const CutMove& move : path.moves) {
    steps.push_back(
        table_step(global, StepOp::alltoall, {{move.from, move.to, move.factor}}, stages[stage], stages[stage + 1]));
    ++stage;
  }
  if (path.permuted) {
    if (stages[stage].tiles != stages[stage + 1].tiles) {
      steps.push_back(table_step(global, StepOp::allpermute, {}, stages[stage], stages[stage + 1]));
    }
    ++stage;
  }
  if (stage + 1 < stages.size()) add_gathers(global, stages[stage], stages[stage + 1], steps);
  return steps;
}

Placement placement_of(const Shape& global, const GridTable& table) {
  const std::size_t rank = global.size();
  Shape local(rank);
  for (std::size_t i = 0; i < rank; ++i) local[i] = global[i] / table.grid[i];
  std::vector<std::int64_t> corners(table.tiles.size());
  for (std::size_t at = 0; at < corners.size(); ++at) corners[at] = table.tiles[at] * local[at % rank];
  return {global, local, std::move(corners)};
}

Step table_step(const Shape& global, StepOp op, std::vector<Move> moves, const GridTable& before,
                const GridTable& after) {
  Shape local_in(global.size());
  for (std::size_t i = 0; i < global.size(); ++i) local_in[i] = global[i] / before.grid[i];
  Step step{op, std::move(moves), {}, {}, {}, std::move(local_in), placement_of(global, after), 0, false};
  step.symbolic = before.device_count() > most_tabled_devices;
  if (step.symbolic) return step;
  if (op == StepOp::allgather) step.groups = DeviceGroups(allgather_groups(before, after));
  if (op == StepOp::alltoall) step.groups = DeviceGroups(alltoall_groups(before, after));
  if (op == StepOp::allpermute) step.pairs = match_tiles(placement_of(global, before), step.after);
  if (op == StepOp::exchange) {
    step.transfers = balanced_transfers(global, before, after);
    step.groups = DeviceGroups(exchange_groups(step.transfers, before));
  }
  return step;
}

}  // namespace retile
