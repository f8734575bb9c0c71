// Grids: how many tiles each dimension of an array is cut into. Numbers and overlaps of tiles are worked out here
// alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "retile/base/list.h"
#include "retile/types/box.h"
#include "retile/types/distributed_type.h"

namespace retile {

// Tiles along each dimension. All tiles of a grid are equally large.
using Grid = Shape;

// Cuts that go from one dimension of a grid to another: `from` has `factor` times fewer tiles, `to` that many more.
struct Move {
  int from = 0;
  int to = 0;
  std::int64_t factor = 1;

  bool operator==(const Move&) const = default;
};

// Row-major number of a tile, given by its number along each dimension.
template <typename Index>
std::int64_t tile_number(const Grid& grid, const Index* tile) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) number = number * grid[i] + tile[i];
  return number;
}

// The tile with this number among tiles of one extent, in whatever unit the extent is.
inline Interval tile_interval(std::int64_t number, std::int64_t extent) {
  return {number * extent, (number + 1) * extent};
}

// The elements of one tile along each dimension.
inline Shape tile_shape(const Shape& global, const Grid& grid) {
  Shape shape(global);
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] /= grid[i];
  return shape;
}

inline Grid grid_of(const DistributedType& type) {
  Grid grid(static_cast<std::size_t>(type.rank()));
  for (std::size_t i = 0; i < grid.size(); ++i) {
    grid[i] = type.dimensions()[i].global / type.dimensions()[i].tile;
  }
  return grid;
}

// The finest grid whose tiles are unions of tiles of both.
inline Grid common_grid(const Grid& a, const Grid& b) {
  Grid grid(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) grid[i] = std::gcd(a[i], b[i]);
  return grid;
}

// Between the two halves of a move: what goes is no longer cut, and not yet cut anew. And after both.
inline Grid merged_grid(Grid grid, const Move& move) {
  at(grid, move.from) /= move.factor;
  return grid;
}
inline Grid grid_after(const Grid& grid, const Move& move) {
  Grid after = merged_grid(grid, move);
  at(after, move.to) *= move.factor;
  return after;
}

}  // namespace retile
