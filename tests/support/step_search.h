// A plain Dijkstra over placements on at most 8 devices, with the steps and the weights that a planner has. It knows
// nothing of normal forms, depths or memory bounds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "retile/costs/cost_model.h"
#include "retile/types/placement.h"
#include "tests/support/weak.h"

namespace retile::test {

// Slices are free, so how many dimensions one of them cuts makes no difference.
enum class StepSet {
  narrow,                 // gathers of one dimension, alltoalls from one to one, permutations
  wide,                   // gathers and alltoalls of several dimensions, exchanges
  wide_without_exchange,  // permutations instead of exchanges
};

class StepSearch {
 public:
  // Searches from the placement of these tiles that gives device 0 the first tile, and so on: one search serves all
  // sources with these tiles. Exchanges are priced by the paper's weights alone.
  StepSearch(const WeakType& source, std::int64_t devices, StepSet steps, const CostModel& model = paper_model());
  // Where the array ends before the source's grid does: tiles are clipped, and devices whose tiles are then empty are
  // all alike. By the paper's weights.
  StepSearch(const WeakType& source, const Shape& array, std::int64_t devices, StepSet steps);

  std::int64_t cheapest(const Placement& source, const Placement& target) const;

 private:
  using Key = std::uint64_t;
  using Tiles = std::array<std::uint8_t, 8>;

  StepSearch(const WeakType& source, const Shape& array, std::int64_t devices, StepSet steps, bool by_paper);

  // The tiles of `grid` that the devices hold, and the grid that they are to be dealt to; `goal` is `grid` in a
  // placement. All dealings of the same tiles are reached through one node.
  struct Node {
    std::size_t grid = 0;
    std::size_t goal = 0;
    Tiles tiles{};
  };

  void list_grids(const Shape& array);
  void run();
  void expand(const Node& node, std::int64_t cost);
  void swap_empty_tiles(const Node& node, std::int64_t cost);
  void expand_alltoalls(const Node& node, std::int64_t cost);
  void deal(const Node& node, std::size_t device, Tiles& dealt, Tiles& room, std::int64_t cost);
  void reach(const Node& node, std::int64_t cost);

  Key encode(const Node& node) const;
  Node decode(Key key) const;
  std::size_t index_of(const Shape& grid) const;
  bool is_coarser(std::size_t coarse, std::size_t fine) const;
  int count_differences(std::size_t a, std::size_t b) const;
  std::uint8_t coarse_tile(std::size_t fine, std::uint8_t tile, std::size_t coarse) const;
  Node merge(const Node& node, std::size_t coarse, std::size_t goal);
  Tiles tiles_of(const Placement& placement, std::size_t grid) const;

  Shape global_;
  std::size_t devices_;
  StepSet steps_;
  bool by_paper_;
  std::size_t source_;  // grid
  std::vector<Shape> grids_;
  std::vector<std::int64_t> sizes_;           // local sizes of the grids
  std::vector<std::int64_t> prices_;          // and what of them is array, at most
  std::vector<std::vector<bool>> has_array_;  // by grid and tile: whether it is not empty
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::uint8_t>> coarse_tiles_;
  std::unordered_map<Key, std::int64_t> costs_;
  std::vector<std::pair<std::int64_t, Key>> heap_;  // the cheapest on top
};

}  // namespace retile::test
