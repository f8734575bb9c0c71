// A plain Dijkstra over placements on few devices: what a redistribution costs at best under fig:cost-model when every
// step may choose its groups freely. No low-level sequence is cheaper.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "retile/types/placement.h"
#include "tests/support/collectives.h"
#include "tests/support/weak.h"

namespace retile::test {

class PlacementSearch {
 public:
  // Searches from the placement of these tiles that gives device 0 the first tile, and so on. The graph looks the same
  // whatever the devices are called, so one search serves all such sources. At most 8 devices.
  PlacementSearch(const WeakType& source, std::int64_t devices, Factors factors);

  struct Path {
    std::int64_t cost = 0;
    std::vector<WeakStep> steps;  // without the permutations
  };
  Path cheapest(const Placement& source, const Placement& target) const;

 private:
  using Key = std::uint64_t;
  using Tiles = std::array<std::uint8_t, 8>;

  // What is left to do before the node is a placement: an alltoall merges first and slices then, and any placement that
  // refines the merged one is as good; the same with the tiles that a permutation shuffles.
  enum class Pending : std::uint8_t { nothing, slice, shuffle };
  struct Node {
    std::uint8_t shape = 0;  // index into shapes_
    Pending pending = Pending::nothing;
    std::uint8_t dimension = 0;  // of the pending slice
    std::uint8_t factor = 1;
    Tiles tiles{};  // of each device, row-major in the grid of tiles
  };
  struct Reached {
    std::int64_t cost;
    bool settled;
    Key previous;   // 0 at the source
    WeakStep step;  // that led here; of factor 1 where a pending one was completed
  };
  // A finer or coarser shape, and for each tile the tile that holds it, or its first one.
  struct Grid {
    std::uint8_t shape;
    std::vector<std::uint8_t> tile;
    std::int64_t stride;  // from one finer tile to the next along the dimension
  };

  Key encode(const Node& node) const;
  Node decode(Key key) const;

  void run(const Node& source);
  void expand(const Node& node, Key key, std::int64_t cost);
  void complete(const Node& node, Key key, std::int64_t cost);
  // Gives the devices from `device` on one of their choices each, so that every tile has equally many holders.
  void deal(const std::vector<std::vector<std::uint8_t>>& choices, std::size_t device, Node& node, Tiles& room, Key key,
            std::int64_t cost);
  void reach(const Node& node, std::int64_t cost, Key previous, const WeakStep& step);

  std::uint8_t shape_index(const Shape& local);
  std::int64_t tile_count(std::uint8_t shape) const;
  bool can_slice(std::uint8_t shape, std::size_t dimension, std::int64_t factor) const;
  bool can_merge(std::uint8_t shape, std::size_t dimension, std::int64_t factor) const;
  const Grid& merged(std::uint8_t shape, std::size_t dimension, std::int64_t factor);
  const Grid& sliced(std::uint8_t shape, std::size_t dimension, std::int64_t factor);

  Shape global_;
  std::size_t devices_;
  std::vector<std::int64_t> factors_;
  std::vector<Shape> shapes_;
  std::map<std::tuple<std::uint8_t, std::size_t, std::int64_t>, Grid> merged_;
  std::map<std::tuple<std::uint8_t, std::size_t, std::int64_t>, Grid> sliced_;
  std::unordered_map<Key, Reached> reached_;
  std::vector<std::pair<std::int64_t, Key>> heap_;  // the cheapest on top
};

}  // namespace retile::test
