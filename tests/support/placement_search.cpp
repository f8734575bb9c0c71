#include "tests/support/placement_search.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile::test {
namespace {

constexpr WeakStep no_step{CollectiveKind::dynslice, 0, 0, 1};

Shape tile_counts(const Shape& global, const Shape& local) {
  Shape counts = global;
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] /= local[i];
  return counts;
}

// Row-major coordinates of a tile in the grid of tiles, and back.
Shape coordinates_of(std::int64_t tile, const Shape& counts) {
  Shape coordinates(counts.size());
  for (std::size_t i = counts.size(); i-- > 0; tile /= counts[i]) coordinates[i] = tile % counts[i];
  return coordinates;
}

std::uint8_t tile_at(const Shape& coordinates, const Shape& counts) {
  std::int64_t tile = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) tile = tile * counts[i] + coordinates[i];
  return static_cast<std::uint8_t>(tile);
}

std::vector<std::uint8_t> tiles_of(const Placement& placement) {
  const Shape counts = tile_counts(placement.global_shape(), placement.local_shape());
  std::vector<std::uint8_t> tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    tiles.push_back(tile_at(tile_counts(placement.offset(device), placement.local_shape()), counts));
  }
  return tiles;
}

}  // namespace

PlacementSearch::PlacementSearch(const WeakType& source, std::int64_t devices, Factors factors)
    : global_(source.global), devices_(static_cast<std::size_t>(devices)) {
  ensure(devices_ <= Tiles().size(), "a key has room for eight tiles");
  for (std::int64_t factor = 2; factor <= devices; ++factor) {
    const bool usable = factors == Factors::any || prime_factors(factor).size() == 1;
    if (usable && devices % factor == 0) factors_.push_back(factor);
  }
  Node start;
  start.shape = shape_index(source.local);
  const std::int64_t holders = devices / tile_count(start.shape);
  for (std::int64_t i = 0; i < devices; ++i)
    start.tiles[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i / holders);
  run(start);
}

// 8 bits of shape, 2 of what is pending, 4 each of dimension and factor, 3 per tile. Never 0: the factor is not.
PlacementSearch::Key PlacementSearch::encode(const Node& node) const {
  Key key = node.shape;
  key = key << 2U | static_cast<Key>(node.pending);
  key = key << 4U | node.dimension;
  key = key << 4U | node.factor;
  for (std::size_t i = 0; i < devices_; ++i) key = key << 3U | node.tiles[i];
  return key;
}

PlacementSearch::Node PlacementSearch::decode(Key key) const {
  Node node;
  for (std::size_t i = devices_; i-- > 0; key >>= 3U) node.tiles[i] = static_cast<std::uint8_t>(key & 7U);
  node.factor = static_cast<std::uint8_t>(key & 15U);
  node.dimension = static_cast<std::uint8_t>(key >> 4U & 15U);
  node.pending = static_cast<Pending>(key >> 8U & 3U);
  node.shape = static_cast<std::uint8_t>(key >> 10U);
  return node;
}

void PlacementSearch::run(const Node& source) {
  reach(source, 0, 0, no_step);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [cost, key] = heap_.back();
    heap_.pop_back();
    if (std::exchange(reached_.at(key).settled, true)) continue;
    const Node node = decode(key);
    if (node.pending == Pending::nothing) {
      expand(node, key, cost);
    } else {
      complete(node, key, cost);
    }
  }
}

void PlacementSearch::expand(const Node& node, Key key, std::int64_t cost) {
  const std::int64_t size = product(shapes_[node.shape]);
  reach({node.shape, Pending::shuffle, 0, 1, {}}, cost + size, key, no_step);
  for (const std::int64_t factor : factors_) {
    const auto slice = [&](Node next, std::size_t dimension) {
      next.pending = Pending::slice;
      next.dimension = static_cast<std::uint8_t>(dimension);
      next.factor = static_cast<std::uint8_t>(factor);
      return next;
    };
    for (std::size_t i = 0; i < global_.size(); ++i) {
      const int from = static_cast<int>(i);
      if (can_slice(node.shape, i, factor)) reach(slice(node, i), cost, key, weak_slice(from, factor));
      if (!can_merge(node.shape, i, factor)) continue;
      const Grid& grid = merged(node.shape, i, factor);
      Node coarse{grid.shape, Pending::nothing, 0, 1, {}};
      for (std::size_t device = 0; device < devices_; ++device) coarse.tiles[device] = grid.tile[node.tiles[device]];
      reach(coarse, cost + size * factor, key, weak_gather(from, factor));
      for (std::size_t j = 0; j < global_.size(); ++j) {
        if (i == j || !can_slice(coarse.shape, j, factor)) continue;
        reach(slice(coarse, j), cost + size, key, weak_alltoall(from, static_cast<int>(j), factor));
      }
    }
  }
}

void PlacementSearch::complete(const Node& node, Key key, std::int64_t cost) {
  Node next{node.shape, Pending::nothing, 0, 1, {}};
  std::vector<std::vector<std::uint8_t>> choices(devices_);
  if (node.pending == Pending::shuffle) {
    std::vector<std::uint8_t> all(static_cast<std::size_t>(tile_count(node.shape)));
    std::iota(all.begin(), all.end(), std::uint8_t{0});
    std::fill(choices.begin(), choices.end(), all);
  } else {
    const Grid& grid = sliced(node.shape, node.dimension, node.factor);
    next.shape = grid.shape;
    for (std::size_t device = 0; device < devices_; ++device) {
      for (std::int64_t i = 0; i < node.factor; ++i) {
        choices[device].push_back(static_cast<std::uint8_t>(grid.tile[node.tiles[device]] + i * grid.stride));
      }
    }
  }
  Tiles room{};
  const std::int64_t tiles = tile_count(next.shape);
  std::fill_n(room.begin(), tiles, static_cast<std::uint8_t>(static_cast<std::int64_t>(devices_) / tiles));
  deal(choices, 0, next, room, key, cost);
}

void PlacementSearch::deal(const std::vector<std::vector<std::uint8_t>>& choices, std::size_t device, Node& node,
                           Tiles& room, Key key, std::int64_t cost) {
  if (device == devices_) {
    reach(node, cost, key, no_step);
    return;
  }
  for (const std::uint8_t tile : choices[device]) {
    if (room[tile] == 0) continue;
    --room[tile];
    node.tiles[device] = tile;
    deal(choices, device + 1, node, room, key, cost);
    ++room[tile];
  }
}

void PlacementSearch::reach(const Node& node, std::int64_t cost, Key previous, const WeakStep& step) {
  const Key key = encode(node);
  const auto [entry, is_new] = reached_.try_emplace(key, Reached{cost, false, previous, step});
  if (!is_new && entry->second.cost <= cost) return;
  entry->second = {cost, false, previous, step};
  heap_.emplace_back(cost, key);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

std::uint8_t PlacementSearch::shape_index(const Shape& local) {
  const auto found = std::find(shapes_.begin(), shapes_.end(), local);
  const auto index = static_cast<std::uint8_t>(found - shapes_.begin());
  if (found == shapes_.end()) shapes_.push_back(local);
  return index;
}

std::int64_t PlacementSearch::tile_count(std::uint8_t shape) const {
  return product(global_) / product(shapes_[shape]);
}

bool PlacementSearch::can_slice(std::uint8_t shape, std::size_t dimension, std::int64_t factor) const {
  return shapes_[shape][dimension] % factor == 0 &&
         static_cast<std::int64_t>(devices_) % (tile_count(shape) * factor) == 0;
}

bool PlacementSearch::can_merge(std::uint8_t shape, std::size_t dimension, std::int64_t factor) const {
  return global_[dimension] / shapes_[shape][dimension] % factor == 0;
}

const PlacementSearch::Grid& PlacementSearch::merged(std::uint8_t shape, std::size_t dimension, std::int64_t factor) {
  const auto [entry, is_new] = merged_.try_emplace({shape, dimension, factor});
  if (!is_new) return entry->second;
  Shape local = shapes_[shape];
  const Shape counts = tile_counts(global_, local);
  local[dimension] *= factor;
  const Shape coarser = tile_counts(global_, local);
  Grid& grid = entry->second;
  grid.shape = shape_index(local);
  for (std::int64_t tile = 0; tile < product(counts); ++tile) {
    Shape coordinates = coordinates_of(tile, counts);
    coordinates[dimension] /= factor;
    grid.tile.push_back(tile_at(coordinates, coarser));
  }
  return grid;
}

const PlacementSearch::Grid& PlacementSearch::sliced(std::uint8_t shape, std::size_t dimension, std::int64_t factor) {
  const auto [entry, is_new] = sliced_.try_emplace({shape, dimension, factor});
  if (!is_new) return entry->second;
  Shape local = shapes_[shape];
  const Shape counts = tile_counts(global_, local);
  local[dimension] /= factor;
  const Shape finer = tile_counts(global_, local);
  Grid& grid = entry->second;
  grid.shape = shape_index(local);
  grid.stride = product(std::span(finer).subspan(dimension + 1));
  for (std::int64_t tile = 0; tile < product(counts); ++tile) {
    Shape coordinates = coordinates_of(tile, counts);
    coordinates[dimension] *= factor;
    grid.tile.push_back(tile_at(coordinates, finer));
  }
  return grid;
}

PlacementSearch::Path PlacementSearch::cheapest(const Placement& source, const Placement& target) const {
  // The devices in the order of their source tiles: so the search calls them.
  const std::vector<std::uint8_t> held = tiles_of(source);
  std::vector<std::size_t> order(devices_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return held[a] < held[b]; });

  Node end;
  end.shape =
      static_cast<std::uint8_t>(std::find(shapes_.begin(), shapes_.end(), target.local_shape()) - shapes_.begin());
  ensure(end.shape < shapes_.size(), "every local shape can be reached");
  const std::vector<std::uint8_t> wanted = tiles_of(target);
  for (std::size_t i = 0; i < devices_; ++i) end.tiles[i] = wanted[order[i]];

  const Reached* entry = &reached_.at(encode(end));
  Path path{entry->cost, {}};
  for (;; entry = &reached_.at(entry->previous)) {
    if (entry->step.factor > 1) path.steps.push_back(entry->step);
    if (entry->previous == 0) break;
  }
  std::reverse(path.steps.begin(), path.steps.end());
  return path;
}

}  // namespace retile::test
