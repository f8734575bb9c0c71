// Routing by tables of devices: for meshes of mixed primes, and a second try for digits.
#include <algorithm>
#include <numeric>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/planner/routing.h"

namespace retile {
namespace {

// The tiles of another grid that hold the table's, or are the first in them, as numbers in row-major order.
std::vector<std::int32_t> tile_numbers(const TileTable& table, const Grid& grid) {
  std::vector<std::int32_t> numbers(table.device_count());
  for (std::size_t device = 0; device < numbers.size(); ++device) {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      number = number * grid[i] + table.tile(device)[i] * grid[i] / table.grid[i];
    }
    numbers[device] = static_cast<std::int32_t>(number);
  }
  return numbers;
}

class TableRouter : public Router {
 public:
  TableRouter(const Problem& problem, const CutProblem& cuts)
      : cuts_(cuts),
        source_(tile_table(problem.source())),
        target_(tile_table(problem.target())) {}

  Verdict judge(std::span<const Cuts> layers) override {
    if (cuts_.rank == 0) return Verdict::lowers;
    grids_.clear();
    for (const Cuts& layer : layers) grids_.push_back(cuts_.grid(layer));
    starts_ = tile_numbers(source_, grids_.front());
    // The last layer may be cut less than the target, and then holds its tiles; never more.
    ends_ = tile_numbers(target_, grids_.back());
    if (grids_.size() == 1) return starts_ == ends_ ? Verdict::lowers : Verdict::refuted;
    if (grids_.size() == 2) return ends_are_even() ? Verdict::lowers : Verdict::refuted;
    if (!count_uses()) return Verdict::undecided;
    order_devices();
    chosen_.assign(static_cast<std::size_t>(cuts_.device_count) * grids_.size(), 0);
    tries_left_ = most_tries;
    const bool found = route(0);
    if (found) return Verdict::lowers;
    return tries_left_ > 0 ? Verdict::refuted : Verdict::undecided;
  }

  std::vector<TileTable> routes(std::span<const Cuts> layers) override {
    ensure(judge(layers) == Verdict::lowers, "a path that was judged to lower has routes");
    const auto rank = static_cast<std::size_t>(cuts_.rank);
    std::vector<TileTable> routes(layers.size());
    for (std::size_t k = 0; k < layers.size() && rank > 0; ++k) {
      routes[k] = {grids_[k], std::vector<std::int32_t>(static_cast<std::size_t>(cuts_.device_count) * rank)};
      for (std::size_t device = 0; device < static_cast<std::size_t>(cuts_.device_count); ++device) {
        std::int64_t number = k == 0                   ? starts_[device]
                              : k + 1 == layers.size() ? ends_[device]
                                                       : chosen_[device * grids_.size() + k];
        for (std::size_t i = rank; i-- > 0; number /= grids_[k][i]) {
          routes[k].tiles[device * rank + i] = static_cast<std::int32_t>(number % grids_[k][i]);
        }
      }
    }
    return routes;
  }

 private:
  static constexpr std::int64_t most_tries = 200000;
  static constexpr std::int64_t largest_table = 1 << 22;

  // With nothing between source and target: each pair of tiles that some device has, as often as it must be.
  // The pairs that are there then make up all N devices, so there are no others.
  bool ends_are_even() const {
    std::vector<std::pair<std::int32_t, std::int32_t>> ends;
    for (std::size_t device = 0; device < starts_.size(); ++device) ends.emplace_back(starts_[device], ends_[device]);
    std::sort(ends.begin(), ends.end());
    for (std::size_t begin = 0; begin < ends.size();) {
      std::size_t end = begin;
      while (end < ends.size() && ends[end] == ends[begin]) ++end;
      if (static_cast<std::int64_t>(end - begin) != uses_of_pair(ends[begin].first, ends[begin].second)) return false;
      begin = end;
    }
    return true;
  }

  // N · |p ∩ q| / |array| for tiles of the first two layers.
  std::int64_t uses_of_pair(std::int64_t p, std::int64_t q) const {
    std::int64_t uses = cuts_.device_count;
    std::int64_t units = 1;
    for (std::size_t i = grids_[0].size(); i-- > 0; p /= grids_[0][i], q /= grids_[1][i]) {
      uses *= overlap(p % grids_[0][i], grids_[0][i], q % grids_[1][i], grids_[1][i]);
      units *= std::lcm(grids_[0][i], grids_[1][i]);
    }
    return uses / units;
  }

  // Of two tiles of a dimension cut into `from` and into `to`, in units of 1/lcm of the dimension.
  static std::int64_t overlap(std::int64_t p, std::int64_t from, std::int64_t q, std::int64_t to) {
    const std::int64_t unit = std::lcm(from, to);
    return intersect(tile_interval(p, unit / from), tile_interval(q, unit / to)).size();
  }

  // uses_[k]: how many devices still have to go from tile p of layer k to tile q of layer k + 1. False
  // where the tables would be too large.
  bool count_uses() {
    uses_.clear();
    for (std::size_t k = 0; k + 1 < grids_.size(); ++k) {
      const std::int64_t size = product(grids_[k]) * product(grids_[k + 1]);
      if (size > largest_table) return false;
      uses_.push_back(uses_between(grids_[k], grids_[k + 1]));
    }
    return true;
  }

  // N · |p ∩ q| / |array|, tile by tile: a product over the dimensions of overlaps, in units of 1/lcm.
  std::vector<std::int32_t> uses_between(const Shape& from, const Shape& to) const {
    std::vector<std::int64_t> uses{cuts_.device_count};
    std::int64_t from_tiles = 1;
    std::int64_t to_tiles = 1;
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::vector<std::int64_t> longer(uses.size() * static_cast<std::size_t>(from[i] * to[i]));
      for (std::int64_t p = 0; p < from_tiles * from[i]; ++p) {
        for (std::int64_t q = 0; q < to_tiles * to[i]; ++q) {
          const std::int64_t before = uses[static_cast<std::size_t>(p / from[i] * to_tiles + q / to[i])];
          // The division is exact at the end; scaled by the number of units until then.
          longer[static_cast<std::size_t>(p * to_tiles * to[i] + q)] =
              before * overlap(p % from[i], from[i], q % to[i], to[i]);
        }
      }
      uses = std::move(longer);
      from_tiles *= from[i];
      to_tiles *= to[i];
    }
    std::int64_t units = 1;
    for (std::size_t i = 0; i < from.size(); ++i) units *= std::lcm(from[i], to[i]);
    std::vector<std::int32_t> counts(uses.size());
    for (std::size_t i = 0; i < uses.size(); ++i) {
      ensure(uses[i] % units == 0, "a grid finer than two layers has whole tiles in both");
      counts[i] = static_cast<std::int32_t>(uses[i] / units);
    }
    return counts;
  }

  // Devices with equal ends follow each other, so that the search can tell them apart no more than it must.
  void order_devices() {
    order_.resize(static_cast<std::size_t>(cuts_.device_count));
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(starts_[a], ends_[a]) < std::pair(starts_[b], ends_[b]);
    });
  }

  // Routes the devices order_[next…].
  bool route(std::size_t next) {
    if (next == order_.size()) return true;
    const std::size_t device = order_[next];
    chosen_[device * grids_.size()] = starts_[device];
    return advance(next, device, 1);
  }

  // Chooses the device's tile in layer k and after.
  bool advance(std::size_t next, std::size_t device, std::size_t k) {
    if (--tries_left_ < 0) return false;
    const std::int32_t from = chosen_[device * grids_.size() + k - 1];
    const auto tiles = static_cast<std::int32_t>(product(grids_[k]));
    const bool last = k + 1 == grids_.size();
    const std::int32_t first_tile = last ? ends_[device] : lowest_tile(next, device, k);
    for (std::int32_t tile = first_tile; tile < (last ? first_tile + 1 : tiles); ++tile) {
      std::int32_t& uses = uses_[k - 1][static_cast<std::size_t>(from) * static_cast<std::size_t>(tiles) +
                                        static_cast<std::size_t>(tile)];
      if (uses == 0) continue;
      --uses;
      chosen_[device * grids_.size() + k] = tile;
      if (last ? route(next + 1) : advance(next, device, k + 1)) return true;
      ++uses;
      if (tries_left_ < 0) return false;
    }
    return false;
  }

  // Devices with equal ends are interchangeable: they take their tiles of the first free layer in order.
  std::int32_t lowest_tile(std::size_t next, std::size_t device, std::size_t k) const {
    if (k != 1 || next == 0) return 0;
    const std::size_t previous = order_[next - 1];
    const bool equal = starts_[previous] == starts_[device] && ends_[previous] == ends_[device];
    return equal ? chosen_[previous * grids_.size() + 1] : 0;
  }

  const CutProblem& cuts_;
  TileTable source_;
  TileTable target_;

  // Of the layers that were judged last.
  std::vector<Grid> grids_;
  std::vector<std::int32_t> starts_;
  std::vector<std::int32_t> ends_;
  std::vector<std::vector<std::int32_t>> uses_;
  std::vector<std::size_t> order_;
  std::vector<std::int32_t> chosen_;  // [device * layers + layer]
  std::int64_t tries_left_ = 0;
};

}  // namespace

std::unique_ptr<Router> make_table_router(const Problem& problem, const CutProblem& cuts) {
  return std::make_unique<TableRouter>(problem, cuts);
}

std::vector<Cuts> layers_of(const CutProblem& cuts, const NormalPath& path) {
  const auto exponents = [&](const Shape& grid) {
    Cuts out(cuts.source.size());
    for (std::size_t p = 0; p < cuts.primes.size(); ++p) {
      for (int i = 0; i < cuts.rank; ++i) {
        for (std::int64_t tiles = grid[static_cast<std::size_t>(i)]; tiles % cuts.primes[p] == 0;
             tiles /= cuts.primes[p]) {
          ++out[cuts.at(p, i)];
        }
      }
    }
    return out;
  };
  std::vector<Cuts> layers{cuts.source};
  Grid grid = path.sliced;
  for (const Move& move : path.moves) {
    layers.push_back(exponents(merged_grid(grid, move)));
    grid = grid_after(grid, move);
  }
  if (path.moved != path.target) layers.push_back(cuts.target);
  return layers;
}

}  // namespace retile
