#include "tests/support/step_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile::test {
namespace {

Shape quotients(const Shape& numerators, const Shape& denominators) {
  Shape result = numerators;
  for (std::size_t i = 0; i < result.size(); ++i) result[i] /= denominators[i];
  return result;
}

}  // namespace

StepSearch::StepSearch(const WeakType& source, std::int64_t devices, StepSet steps, const CostModel& model)
    : StepSearch(source, source.global, devices, steps, &model == &paper_model()) {}

StepSearch::StepSearch(const WeakType& source, const Shape& array, std::int64_t devices, StepSet steps)
    : StepSearch(source, array, devices, steps, true) {}

StepSearch::StepSearch(const WeakType& source, const Shape& array, std::int64_t devices, StepSet steps, bool by_paper)
    : global_(source.global), devices_(static_cast<std::size_t>(devices)), steps_(steps), by_paper_(by_paper) {
  ensure(devices_ <= Tiles().size(), "a key has room for eight tiles");
  ensure(steps != StepSet::wide || by_paper_, "an exchange has one price in the paper's weights alone");
  list_grids(array);
  source_ = index_of(quotients(global_, source.local));
  run();
}

void StepSearch::list_grids(const Shape& array) {
  std::vector<Shape> grids{Shape()};
  for (const std::int64_t size : global_) {
    std::vector<Shape> longer;
    for (const Shape& grid : grids) {
      for (std::int64_t tiles = 1; tiles <= static_cast<std::int64_t>(devices_); ++tiles) {
        Shape next = grid;
        next.push_back(tiles);
        if (size % tiles == 0 && static_cast<std::int64_t>(devices_) % product(next) == 0) longer.push_back(next);
      }
    }
    grids = std::move(longer);
  }
  grids_ = std::move(grids);
  for (const Shape& grid : grids_) {
    sizes_.push_back(product(global_) / product(grid));
    prices_.push_back(1);
    std::vector<bool> has_array(1, true);
    for (std::size_t i = 0; i < grid.size(); ++i) {
      const std::int64_t tile = global_[i] / grid[i];
      prices_.back() *= std::min(tile, array[i]);
      std::vector<bool> longer;
      for (const bool before : has_array) {
        for (std::int64_t number = 0; number < grid[i]; ++number) longer.push_back(before && number * tile < array[i]);
      }
      has_array = std::move(longer);
    }
    has_array_.push_back(std::move(has_array));
  }
  for (std::size_t fine = 0; fine < grids_.size(); ++fine) {
    for (std::size_t coarse = 0; coarse < grids_.size(); ++coarse) {
      if (!is_coarser(coarse, fine)) continue;
      std::vector<std::uint8_t>& table = coarse_tiles_[{fine, coarse}];
      for (std::int64_t tile = 0; tile < product(grids_[fine]); ++tile) {
        table.push_back(coarse_tile(fine, static_cast<std::uint8_t>(tile), coarse));
      }
    }
  }
}

std::size_t StepSearch::index_of(const Shape& grid) const {
  const auto found = std::find(grids_.begin(), grids_.end(), grid);
  ensure(found != grids_.end(), "the devices supply the cuts of every grid");
  return static_cast<std::size_t>(found - grids_.begin());
}

bool StepSearch::is_coarser(std::size_t coarse, std::size_t fine) const {
  for (std::size_t i = 0; i < global_.size(); ++i) {
    if (grids_[fine][i] % grids_[coarse][i] != 0) return false;
  }
  return true;
}

int StepSearch::count_differences(std::size_t a, std::size_t b) const {
  int differences = 0;
  for (std::size_t i = 0; i < global_.size(); ++i) differences += grids_[a][i] != grids_[b][i] ? 1 : 0;
  return differences;
}

std::uint8_t StepSearch::coarse_tile(std::size_t fine, std::uint8_t tile, std::size_t coarse) const {
  std::int64_t number = 0;
  std::int64_t weight = 1;
  std::int64_t rest = tile;
  for (std::size_t i = global_.size(); i-- > 0;) {
    number += weight * (rest % grids_[fine][i] / (grids_[fine][i] / grids_[coarse][i]));
    weight *= grids_[coarse][i];
    rest /= grids_[fine][i];
  }
  return static_cast<std::uint8_t>(number);
}

StepSearch::Key StepSearch::encode(const Node& node) const {
  Key key = node.grid << 8U | node.goal;
  for (std::size_t device = 0; device < devices_; ++device) key = key << 4U | node.tiles[device];
  return key;
}

StepSearch::Node StepSearch::decode(Key key) const {
  Node node;
  for (std::size_t device = devices_; device-- > 0; key >>= 4U)
    node.tiles[device] = static_cast<std::uint8_t>(key & 15U);
  node.goal = key & 255U;
  node.grid = key >> 8U;
  return node;
}

void StepSearch::run() {
  Node start{source_, source_, {}};
  const std::size_t holders = devices_ / static_cast<std::size_t>(product(grids_[source_]));
  for (std::size_t device = 0; device < devices_; ++device) {
    start.tiles[device] = static_cast<std::uint8_t>(device / holders);
  }
  reach(start, 0);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto [cost, key] = heap_.back();
    heap_.pop_back();
    if (costs_.at(key) < cost) continue;
    const Node node = decode(key);
    if (node.goal == node.grid) {
      expand(node, cost);
    } else {
      Tiles dealt{};
      Tiles room{};
      const std::int64_t tiles = product(grids_[node.goal]);
      std::fill_n(room.begin(), tiles, static_cast<std::uint8_t>(static_cast<std::int64_t>(devices_) / tiles));
      deal(node, 0, dealt, room, cost);
    }
  }
}

StepSearch::Node StepSearch::merge(const Node& node, std::size_t coarse, std::size_t goal) {
  const std::vector<std::uint8_t>& table = coarse_tiles_.at({node.grid, coarse});
  Node merged{coarse, goal, {}};
  for (std::size_t device = 0; device < devices_; ++device) merged.tiles[device] = table[node.tiles[device]];
  return merged;
}

// Devices that hold nothing hold any of the empty tiles.
void StepSearch::swap_empty_tiles(const Node& node, std::int64_t cost) {
  for (std::size_t i = 0; i < devices_; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (has_array_[node.grid][node.tiles[i]] || has_array_[node.grid][node.tiles[j]]) continue;
      Node swapped = node;
      std::swap(swapped.tiles[i], swapped.tiles[j]);
      reach(swapped, cost);
    }
  }
}

void StepSearch::expand(const Node& node, std::int64_t cost) {
  swap_empty_tiles(node, cost);
  const std::int64_t size = sizes_[node.grid];
  const std::int64_t price = prices_[node.grid];
  const std::size_t whole = index_of(Shape(global_.size(), 1));
  for (std::size_t other = 0; other < grids_.size(); ++other) {
    const bool permutes = other == node.grid || (steps_ == StepSet::wide && sizes_[other] == size);
    if (permutes && other != whole) reach({whole, other, {}}, cost + prices_[other]);
    if (other == node.grid) continue;
    if (is_coarser(node.grid, other)) reach({node.grid, other, node.tiles}, cost);
    const bool gathers = is_coarser(other, node.grid);
    if (!gathers || (steps_ == StepSet::narrow && count_differences(other, node.grid) > 1)) continue;
    reach(merge(node, other, other), cost + (by_paper_ ? prices_[other] : prices_[other] - price));
  }
  expand_alltoalls(node, cost);
}

// In each dimension of an alltoall one of the two grids divides the other.
void StepSearch::expand_alltoalls(const Node& node, std::int64_t cost) {
  const std::int64_t size = sizes_[node.grid];
  for (std::size_t other = 0; other < grids_.size(); ++other) {
    if (other == node.grid || sizes_[other] != size) continue;
    if (steps_ == StepSet::narrow && count_differences(other, node.grid) > 2) continue;
    Shape common = grids_[node.grid];
    bool nests = true;
    for (std::size_t i = 0; i < common.size(); ++i) {
      common[i] = std::gcd(common[i], grids_[other][i]);
      nests = nests && (common[i] == grids_[node.grid][i] || common[i] == grids_[other][i]);
    }
    if (!nests) continue;
    const std::int64_t members = product(grids_[node.grid]) / product(common);
    reach(merge(node, index_of(common), other), cost + (by_paper_ ? prices_[other] : size - size / members));
  }
}

// Gives the devices from `device` on a tile of the goal inside the one that they hold, so that every tile has equally
// many holders.
void StepSearch::deal(const Node& node, std::size_t device, Tiles& dealt, Tiles& room, std::int64_t cost) {
  if (device == devices_) {
    reach({node.goal, node.goal, dealt}, cost);
    return;
  }
  const std::vector<std::uint8_t>& table = coarse_tiles_.at({node.goal, node.grid});
  for (std::size_t tile = 0; tile < table.size(); ++tile) {
    if (table[tile] != node.tiles[device] || room[tile] == 0) continue;
    --room[tile];
    dealt[device] = static_cast<std::uint8_t>(tile);
    deal(node, device + 1, dealt, room, cost);
    ++room[tile];
  }
}

void StepSearch::reach(const Node& node, std::int64_t cost) {
  const Key key = encode(node);
  const auto [entry, is_new] = costs_.try_emplace(key, cost);
  if (!is_new && entry->second <= cost) return;
  entry->second = cost;
  heap_.emplace_back(cost, key);
  std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
}

StepSearch::Tiles StepSearch::tiles_of(const Placement& placement, std::size_t grid) const {
  Tiles tiles{};
  for (std::size_t device = 0; device < devices_; ++device) {
    const Shape corner = placement.offset(static_cast<Device>(device));
    std::int64_t number = 0;
    for (std::size_t i = 0; i < corner.size(); ++i) {
      number = number * grids_[grid][i] + corner[i] / placement.local_shape()[i];
    }
    tiles[device] = static_cast<std::uint8_t>(number);
  }
  return tiles;
}

std::int64_t StepSearch::cheapest(const Placement& source, const Placement& target) const {
  ensure(index_of(quotients(global_, source.local_shape())) == source_, "a search serves the tiles it was made for");
  // The devices in the order of their source tiles: so the search calls them.
  const Tiles held = tiles_of(source, source_);
  std::vector<std::size_t> order(devices_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return held[a] < held[b]; });
  const std::size_t goal = index_of(quotients(global_, target.local_shape()));
  const Tiles wanted = tiles_of(target, goal);
  Node end{goal, goal, {}};
  for (std::size_t i = 0; i < devices_; ++i) end.tiles[i] = wanted[order[i]];
  return costs_.at(encode(end));
}

}  // namespace retile::test
