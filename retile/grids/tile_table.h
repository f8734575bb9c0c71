// Tables of which device holds which tile, device by device: for meshes of any size that can be listed.
//
// Planners ask the same of tables of tiles and of tables of digits (digit_table.h), and are written once over both:
//
//   grid_of(table)                      the grid
//   coarsen(table, grid)                the tiles of a coarser grid that hold the table's
//   deal(first, second, grid, wish)     tiles of a finer grid that lie in both, dealt evenly
//   deal_toward(within, grid, wish)     tiles of a finer grid within those of one, as near to the wish as will do
//   recut(held, move, wish)             the tiles after an alltoall
//   placement_of(global, table)         the boxes
#pragma once

#include <cstdint>
#include <vector>

#include "retile/grids/grid.h"
#include "retile/types/placement.h"

namespace retile {

struct TileTable {
  Grid grid;
  std::vector<std::int32_t> tiles;  // tiles[device * rank + dimension], counted along the dimension

  std::size_t rank() const { return grid.size(); }
  // 0 for an array of rank 0: there is nothing to list.
  std::size_t device_count() const { return grid.empty() ? 0 : tiles.size() / grid.size(); }
  const std::int32_t* tile(std::size_t device) const { return tiles.data() + device * rank(); }
  std::int64_t number(std::size_t device) const { return tile_number(grid, tile(device)); }

  bool operator==(const TileTable&) const = default;
};

TileTable tile_table(const DistributedType& type);
// The table of a placement whose boxes are tiles of a grid.
TileTable tile_table(const Placement& placement);

inline const Grid& grid_of(const TileTable& table) { return table.grid; }
TileTable coarsen(const TileTable& table, const Grid& grid);
// Devices that hold the same two tiles are dealt the tiles in both in turn; `wish` is ignored.
TileTable deal(const TileTable& first, const TileTable& second, const Grid& finer, const TileTable& wish);
TileTable deal_toward(const TileTable& within, const Grid& finer, const TileTable& wish);
TileTable recut(const TileTable& held, const Move& move, const TileTable& wish);
Placement placement_of(const Shape& global, const TileTable& table);

// The fewest elements that some device has in both tables.
std::int64_t least_kept(const Shape& global, const TileTable& before, const TileTable& after);

}  // namespace retile
