// Routing by tables of devices: for meshes of mixed primes, and where routing by digits finds nothing.
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/planner/routing.h"

namespace retile {
namespace {

// The tile of a coarser grid that each device's tile lies in, as a number in row-major order.
std::vector<std::int32_t> tile_numbers(const TileTable& table, const Grid& grid) {
  std::vector<std::int32_t> numbers(table.device_count());
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (grid[i] == 1) continue;
    const auto tiles = static_cast<std::int32_t>(grid[i]);
    const auto inside = static_cast<std::int32_t>(table.grid[i] / grid[i]);
    for (std::size_t device = 0; device < numbers.size(); ++device) {
      numbers[device] = numbers[device] * tiles + table.tile(device)[i] / inside;
    }
  }
  return numbers;
}

// The pairs of tiles of two neighbouring layers that meet. Each is used by one device or more, so there are at most as
// many as devices.
struct Pairs {
  std::vector<std::int32_t> begin{0, 1};  // the first pair of each tile of the first layer, and an end
  std::vector<std::int32_t> tile{0};      // the pair's tile of the second layer, ascending for each tile of the first
  std::vector<std::int64_t> uses;         // how many devices still have to use the pair
  std::vector<std::size_t> first_free;    // by tile of the first layer; all its pairs before this one are used up

  // The index of the pair of two tiles, or the number of pairs where the tiles do not meet.
  std::size_t find(std::int32_t from, std::int32_t to) const {
    const auto first = tile.begin() + begin[static_cast<std::size_t>(from)];
    const auto last = tile.begin() + begin[static_cast<std::size_t>(from) + 1];
    const auto found = std::lower_bound(first, last, to);
    return found == last || *found != to ? tile.size() : static_cast<std::size_t>(found - tile.begin());
  }
};

// The pairs with one more dimension, which the layers cut into `from` and `to` tiles; uses are scaled by the lcm of the
// two.
Pairs in_one_more_dimension(const Pairs& pairs, std::int64_t from, std::int64_t to) {
  const std::int64_t unit = std::lcm(from, to);
  const std::int64_t a = unit / from;
  const std::int64_t b = unit / to;
  Pairs more{{0}, {}, {}, {}};
  for (std::size_t tile = 0; tile + 1 < pairs.begin.size(); ++tile) {
    for (std::int64_t p = 0; p < from; ++p) {
      for (auto pair = static_cast<std::size_t>(pairs.begin[tile]);
           pair < static_cast<std::size_t>(pairs.begin[tile + 1]); ++pair) {
        for (std::int64_t q = p * a / b; q * b < (p + 1) * a; ++q) {
          const std::int64_t overlap = std::min((p + 1) * a, (q + 1) * b) - std::max(p * a, q * b);
          more.tile.push_back(static_cast<std::int32_t>(pairs.tile[pair] * to + q));
          more.uses.push_back(pairs.uses[pair] * overlap);
        }
      }
      more.begin.push_back(static_cast<std::int32_t>(more.tile.size()));
    }
  }
  return more;
}

// The pairs of two layers. Tiles p and q are used by N · |p ∩ q| / |array| of the N devices: a product over the
// dimensions of overlaps, in units of 1/lcm.
Pairs pairs_between(const Grid& from, const Grid& to, std::int64_t device_count) {
  Pairs pairs;
  pairs.uses = {device_count};
  std::int64_t units = 1;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] == 1 && to[i] == 1) continue;
    pairs = in_one_more_dimension(pairs, from[i], to[i]);
    units *= std::lcm(from[i], to[i]);
  }
  for (std::int64_t& uses : pairs.uses) {
    ensure(uses % units == 0, "a grid finer than two layers has whole tiles in both");
    uses /= units;
  }
  return pairs;
}

class TableRouter : public Router {
 public:
  TableRouter(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget)
      : cuts_(cuts), budget_(budget), source_(tile_table(problem.source())), target_(tile_table(problem.target())) {}

  Verdict judge(std::span<const Cuts> layers) override {
    if (cuts_.rank == 0) return Verdict::lowers;
    if (const Verdict verdict = judge_ends(layers); verdict != Verdict::lowers || layers.size() <= 2) return verdict;
    if (budget_.is_spent()) return Verdict::undecided;
    const std::int64_t most =
        std::max(budget_.scaled(most_tries), 4 * cuts_.device_count * static_cast<std::int64_t>(layers.size()));
    const std::int64_t tries = std::min(most, budget_.left());
    budget_.spend(cuts_.device_count * static_cast<std::int64_t>(layers.size()) * units_of_layer);
    set_layers(layers);
    std::int64_t tries_left = tries;
    const bool found = find_routes(sorted_ends(layers.back()), tries_left);
    budget_.spend(tries - std::max<std::int64_t>(0, tries_left));
    if (found) return Verdict::lowers;
    return tries_left > 0 ? Verdict::refuted : Verdict::undecided;
  }

  std::optional<std::vector<TileTable>> routes(std::span<const Cuts> layers) override {
    const auto rank = static_cast<std::size_t>(cuts_.rank);
    const auto devices = static_cast<std::size_t>(cuts_.device_count);
    std::vector<TileTable> routes(layers.size());
    if (rank == 0) return routes;
    set_layers(layers);
    const std::vector<std::int32_t> starts = tile_numbers(source_, grids_.front());
    const std::vector<std::int32_t> ends = tile_numbers(target_, grids_.back());
    std::vector<std::size_t> order = numbers_below(devices);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(starts[a], ends[a]) < std::pair(starts[b], ends[b]);
    });
    if (layers.size() > 2) {
      std::vector<Ends> sorted;
      sorted.reserve(devices);
      for (const std::size_t device : order) sorted.emplace_back(starts[device], ends[device]);
      std::int64_t tries = std::numeric_limits<std::int64_t>::max();
      if (!find_routes(sorted, tries)) return std::nullopt;
    }
    for (std::size_t k = 0; k < layers.size(); ++k) {
      routes[k] = {grids_[k], std::vector<std::int32_t>(devices * rank)};
      for (std::size_t next = 0; next < devices; ++next) {
        const std::size_t device = order[next];
        std::int64_t number = k == 0 ? starts[device] : k + 1 == layers.size() ? ends[device] : tile_in_layer(next, k);
        for (std::size_t i = rank; i-- > 0; number /= grids_[k][i]) {
          routes[k].tiles[device * rank + i] = static_cast<std::int32_t>(number % grids_[k][i]);
        }
      }
    }
    return routes;
  }

 private:
  // The tiles of the first and the last layer between which a device goes.
  using Ends = std::pair<std::int32_t, std::int32_t>;

  static constexpr std::int64_t most_tries = 200000;       // per judgement, at effort 1
  static constexpr std::int64_t most_kept_ends = 1 << 22;  // in all lists together
  // Units of the budget per device: to look up its ends, and to list the pairs of a layer.
  static constexpr std::int64_t units_of_ends = 2;
  static constexpr std::int64_t units_of_layer = 4;
  static constexpr std::size_t skips_of_try = 8;  // used-up pairs that are passed over in the time of one try

  // Judges the layers by the ends of the devices alone. A device's tile is known on every grid that all layers since
  // the source cut at least as deep, and likewise for all layers until the target. Between neighbouring layers these
  // coarser tiles must be used evenly too. Exact for up to two layers, where nothing is free; for more, devices may
  // have no routes although this says that the path lowers.
  Verdict judge_ends(std::span<const Cuts> layers) {
    std::vector<Cuts> until_target(layers.begin(), layers.end());
    const Cuts* later = &cuts_.target;
    for (std::size_t k = layers.size(); k-- > 0; later = &until_target[k]) cut_no_deeper(until_target[k], *later);
    Cuts since_source = layers.front();
    for (std::size_t k = 0; k < layers.size(); ++k) {
      if (k > 0) {
        cut_no_deeper(since_source, layers[k - 1]);
      } else if (layers.size() > 1) {
        continue;
      }
      const auto [known, is_new] = even_.try_emplace({since_source, until_target[k]}, Verdict::undecided);
      if (is_new) known->second = judge_pairs(since_source, until_target[k]);
      if (known->second != Verdict::lowers) return known->second;
    }
    return Verdict::lowers;
  }

  static void cut_no_deeper(Cuts& cuts, const Cuts& than) {
    std::transform(cuts.begin(), cuts.end(), than.begin(), cuts.begin(),
                   [](std::int8_t a, std::int8_t b) { return std::min(a, b); });
  }

  // Whether devices that start in the tiles of one grid and end in those of another use each pair as often as required.
  Verdict judge_pairs(const Cuts& from, const Cuts& to) {
    if (budget_.is_spent()) return Verdict::undecided;
    budget_.spend(cuts_.device_count * units_of_ends);
    const Grid from_grid = cuts_.grid(from);
    const Grid to_grid = cuts_.grid(to);
    Pairs pairs = pairs_between(from_grid, to_grid, cuts_.device_count);
    const std::vector<std::int32_t> starts = tile_numbers(source_, from_grid);
    const std::vector<std::int32_t> ends = tile_numbers(target_, to_grid);
    for (std::size_t device = 0; device < starts.size(); ++device) {
      const std::size_t pair = pairs.find(starts[device], ends[device]);
      if (pair == pairs.tile.size() || pairs.uses[pair]-- == 0) return Verdict::refuted;
    }
    return Verdict::lowers;
  }

  void set_layers(std::span<const Cuts> layers) {
    grids_.clear();
    pairs_.clear();
    for (const Cuts& layer : layers) grids_.push_back(cuts_.grid(layer));
    for (std::size_t k = 0; k + 1 < grids_.size(); ++k) {
      Pairs& pairs = pairs_.emplace_back(pairs_between(grids_[k], grids_[k + 1], cuts_.device_count));
      pairs.first_free.assign(pairs.begin.begin(), pairs.begin.end() - 1);
    }
  }

  // The ends of all devices, sorted, so that equal ones are neighbours.
  const std::vector<Ends>& sorted_ends(const Cuts& last_layer) {
    if (static_cast<std::int64_t>(ends_.size() + 1) * cuts_.device_count > most_kept_ends) ends_.clear();
    const auto [known, is_new] = ends_.try_emplace(last_layer);
    if (is_new) {
      budget_.spend(cuts_.device_count * units_of_layer);
      const std::vector<std::int32_t> starts = tile_numbers(source_, grids_.front());
      const std::vector<std::int32_t> ends = tile_numbers(target_, grids_.back());
      known->second.reserve(starts.size());
      for (std::size_t device = 0; device < starts.size(); ++device) {
        known->second.emplace_back(starts[device], ends[device]);
      }
      std::sort(known->second.begin(), known->second.end());
    }
    return known->second;
  }

  // Chooses the pairs that the devices, in this order, use: depth first, device by device and layer by layer.
  bool find_routes(const std::vector<Ends>& ends, std::int64_t& tries_left) {
    const std::size_t steps = pairs_.size();
    chosen_.resize(ends.size() * steps);
    for (std::size_t at = 0; at < chosen_.size();) {
      if (--tries_left < 0) return false;
      skipped_ = 0;
      bool found = choose(ends, at, first_choice(ends, at));
      while (!found) {  // takes back the last choice
        if (at == 0) return false;
        --at;
        Pairs& pairs = pairs_[at % steps];
        const std::size_t wrong = chosen_[at];
        ++pairs.uses[wrong];
        std::size_t& free = pairs.first_free[static_cast<std::size_t>(tile_before(ends, at))];
        free = std::min(free, wrong);
        found = at % steps + 1 < steps && choose(ends, at, wrong + 1);
      }
      tries_left -= static_cast<std::int64_t>(skipped_ / skips_of_try);
      ++at;
    }
    return true;
  }

  std::int32_t tile_before(const std::vector<Ends>& ends, std::size_t at) const {
    const std::size_t step = at % pairs_.size();
    return step == 0 ? ends[at / pairs_.size()].first : pairs_[step - 1].tile[chosen_[at - 1]];
  }

  std::size_t first_choice(const std::vector<Ends>& ends, std::size_t at) const {
    const std::size_t steps = pairs_.size();
    const std::size_t next = at / steps;
    const std::int32_t from = tile_before(ends, at);
    if (at % steps + 1 == steps) return pairs_[at % steps].find(from, ends[next].second);
    // Devices with equal ends are interchangeable, so their tiles of the first free layer are taken in ascending order.
    if (at % steps == 0 && next > 0 && ends[next - 1] == ends[next]) return chosen_[at - steps];
    return static_cast<std::size_t>(pairs_[at % steps].begin[static_cast<std::size_t>(from)]);
  }

  // Takes the first pair, from `pair` on, that is not used up. False where there is none.
  bool choose(const std::vector<Ends>& ends, std::size_t at, std::size_t pair) {
    Pairs& pairs = pairs_[at % pairs_.size()];
    const bool last = at % pairs_.size() + 1 == pairs_.size();
    const auto from = static_cast<std::size_t>(tile_before(ends, at));
    const std::size_t end =
        last ? std::min(pair + 1, pairs.tile.size()) : static_cast<std::size_t>(pairs.begin[from + 1]);
    std::size_t& free = pairs.first_free[from];
    if (!last) pair = std::max(pair, free);
    const bool is_first = pair == free;
    const std::size_t begin = pair;
    while (pair < end && pairs.uses[pair] == 0) ++pair;
    skipped_ += pair - begin;
    if (is_first && !last) free = pair;
    if (pair >= end) return false;
    --pairs.uses[pair];
    chosen_[at] = static_cast<std::uint32_t>(pair);
    return true;
  }

  // The tile of this layer that the device with number `next` in the order goes through.
  std::int32_t tile_in_layer(std::size_t next, std::size_t layer) const {
    return pairs_[layer - 1].tile[chosen_[next * pairs_.size() + layer - 1]];
  }

  const CutProblem& cuts_;
  WorkBudget& budget_;
  TileTable source_;
  TileTable target_;
  std::map<std::pair<Cuts, Cuts>, Verdict> even_;  // verdicts of judge_pairs()
  std::map<Cuts, std::vector<Ends>> ends_;         // sorted, by the last layer

  // State of the last judgement.
  std::vector<Grid> grids_;
  std::vector<Pairs> pairs_;           // of neighbouring layers
  std::vector<std::uint32_t> chosen_;  // [device in order * pairs_ + step]: a pair
  std::size_t skipped_ = 0;            // pairs that the last choice passed over
};

}  // namespace

std::unique_ptr<Router> make_table_router(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget) {
  return std::make_unique<TableRouter>(problem, cuts, budget);
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
