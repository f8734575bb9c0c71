// Which devices communicate: groups, pairs and transfers worked out from the boxes before and after a step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// The tile of every device in a grid: tiles[device * rank + dimension], counted along the dimension.
using TileTable = std::vector<std::int32_t>;

// A grid of tiles, by their number in each dimension, with the tile that every device holds.
struct GridTable {
  Shape grid;
  TileTable tiles;

  std::int64_t device_count() const { return grid.empty() ? 0 : static_cast<std::int64_t>(tiles.size() / grid.size()); }
};

GridTable grid_table(const Placement& placement);

// The devices that gather each other's boxes: the tiles of `before` in one tile of `after` once each,
// replicas matched in order of their numbers. In the order of the plan format, see order_groups().
std::vector<std::vector<Device>> allgather_groups(const GridTable& before, const GridTable& after);

// Groups whose boxes before make up a box that their boxes after make up too. Where replicas leave a
// choice, any even dealing has such groups (König's theorem), and they are found by matching.
std::vector<std::vector<Device>> alltoall_groups(const GridTable& before, const GridTable& after);

// The sets of devices that the transfers connect.
std::vector<std::vector<Device>> exchange_groups(const std::vector<Transfer>& transfers, const GridTable& before);

// Who sends whose tile where, to turn one placement into another of the same shapes; fixed points
// wherever there can be some.
std::vector<DevicePair> match_tiles(const Placement& before, const Placement& after);

// What each device lacks of its box after, each piece from one of its holders before. Holders of a tile are
// asked in turn, so that senders are balanced.
std::vector<Transfer> balanced_transfers(const Shape& global, const GridTable& before, const GridTable& after);

// Works out the lists of a symbolic step. Throws RuntimeError where it cannot be done at all.
void list_devices(Step& step, const Placement& before);

// The same with the lists of symbolic steps worked out.
bool has_symbolic_steps(const std::vector<Step>& steps);
Movement with_lists(Movement movement);
Plan with_lists(Plan plan);

}  // namespace retile
