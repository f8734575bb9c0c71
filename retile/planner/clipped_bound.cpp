#include "retile/planner/clipped_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/planner/cut_problem.h"

namespace retile {
namespace {

// The cost of a step to a grid, on the whole grid and clipped to the array.
struct StepPrice {
  std::int64_t padded = 0;
  std::int64_t clipped = 0;
};

class ClippedPrices {
 public:
  ClippedPrices(const TypedProblem& problem, const Shape& array) : cuts_(cut_problem_of(problem)), array_(array) {
    for (const int supply : cuts_.supply) depths_ *= static_cast<std::size_t>(supply) + 1;
    any_ = cheapest_by_size(cuts_.capacity);
    for (const StepPrice& price : any_) {
      share_ = std::min(share_, static_cast<double>(price.clipped) / static_cast<double>(price.padded));
    }
  }

  // A lower bound on the whole grid that follows from the grids alone, whoever holds which tile: a step to the target,
  // and one more where something is gathered and the mesh has too few axes for a grid that is finer than both ends.
  std::int64_t bound_by_grids() const {
    bool gathers = false;
    bool meets = true;
    std::int64_t finest = cuts_.source_size;
    for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
      int both = 0;
      for (int i = 0; i < cuts_.rank; ++i) both += std::max(cuts_.source[cuts_.at(p, i)], cuts_.target[cuts_.at(p, i)]);
      meets = meets && both <= cuts_.supply[p];
      gathers = gathers || cuts_.source_total[p] > cuts_.target_total[p];
      for (int i = cuts_.source_total[p]; i < cuts_.deepest(p); ++i) finest /= cuts_.primes[p];
    }
    return cuts_.target_size + (gathers && !meets ? finest : 0);
  }

  // The bound. The last step that moves anything leads to the target's grid or a coarser one; any steps may come before
  // it.
  std::int64_t least(std::int64_t bound) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const StepPrice& last : cheapest_by_size(cuts_.target)) {
      least = std::min(least, cost_of(last, bound - last.padded));
    }
    return least;
  }

 private:
  static constexpr std::size_t most_remainders = 1024;  // costs whose covers are computed exactly

  // The cheapest grid of each local size among those cut no deeper than the limit; the largest sizes first. A depth's
  // number encodes how often each prime cuts.
  std::vector<StepPrice> cheapest_by_size(const Cuts& limit) const {
    std::vector<StepPrice> prices(depths_);  // by depth, for the dimensions so far; 0: no such grid
    prices[0] = {1, 1};
    for (int i = 0; i < cuts_.rank; ++i) {
      std::vector<StepPrice> longer(depths_);
      add_dimension(limit, i, 0, {0, at(cuts_.global, i)}, 1, prices, longer);
      prices = std::move(longer);
    }
    std::erase_if(prices, [](const StepPrice& price) { return price.padded == 0; });
    std::sort(prices.begin(), prices.end(), [](const StepPrice& a, const StepPrice& b) { return a.padded > b.padded; });
    return prices;
  }

  // How often the primes so far cut a dimension, as a part of the depth's number, and the size of its tiles.
  struct DimensionCut {
    std::size_t depth = 0;
    std::int64_t tile = 1;
  };

  // Adds every way to cut the dimension to every depth that the dimensions before it have.
  void add_dimension(const Cuts& limit, int dimension, std::size_t prime, DimensionCut cut, std::size_t stride,
                     const std::vector<StepPrice>& prices, std::vector<StepPrice>& longer) const {
    if (prime == cuts_.primes.size()) {
      const std::int64_t clipped = std::min(cut.tile, at(array_, dimension));
      for (std::size_t depth = 0; depth + cut.depth < depths_; ++depth) {
        if (prices[depth].padded == 0 || !adds_up(depth, cut.depth)) continue;
        StepPrice& price = longer[depth + cut.depth];
        const std::int64_t product = prices[depth].clipped * clipped;
        price = {prices[depth].padded * cut.tile, price.padded == 0 ? product : std::min(price.clipped, product)};
      }
      return;
    }
    for (int count = 0; count <= limit[cuts_.at(prime, dimension)]; ++count) {
      add_dimension(limit, dimension, prime + 1, cut, stride * (static_cast<std::size_t>(cuts_.supply[prime]) + 1),
                    prices, longer);
      cut.depth += stride;
      cut.tile /= cuts_.primes[prime];
    }
  }

  // Whether the mesh has enough axes for the cuts of both depths together.
  bool adds_up(std::size_t a, std::size_t b) const {
    for (const int supply : cuts_.supply) {
      const std::size_t base = static_cast<std::size_t>(supply) + 1;
      if (a % base + b % base >= base) return false;
      a /= base;
      b /= base;
    }
    return true;
  }

  // The clipped cost of a step and of others that cost `more_padded` on the whole grid.
  std::int64_t cost_of(const StepPrice& step, std::int64_t more_padded) {
    return checked_add(step.clipped, cover(more_padded)).value_or(std::numeric_limits<std::int64_t>::max());
  }

  // The least clipped cost of steps that cost `padded` or more on the whole grid.
  std::int64_t cover(std::int64_t padded) {
    if (padded <= 0) return 0;
    if (covers_.size() >= most_remainders && !covers_.contains(padded)) {
      // The factor rounds down by slightly more than a double's error.
      return static_cast<std::int64_t>(std::ceil(static_cast<double>(padded) * share_ * (1 - 1e-12)));
    }
    const auto [known, is_new] = covers_.try_emplace(padded, std::numeric_limits<std::int64_t>::max());
    std::int64_t& least = known->second;
    if (!is_new) return least;
    for (const StepPrice& price : any_) least = std::min(least, cost_of(price, padded - price.padded));
    return least;
  }

  const CutProblem cuts_;
  const Shape& array_;
  std::size_t depths_ = 1;
  std::vector<StepPrice> any_;  // steps to any grid
  double share_ = 1;            // the least ratio of clipped to padded cost over all steps
  std::map<std::int64_t, std::int64_t> covers_;
};

// Whether no tile lies beyond the array.
bool has_all_tiles(const DistributedType& type, const Shape& array) {
  for (std::size_t i = 0; i < array.size(); ++i) {
    const Dimension& dimension = type.dimensions()[i];
    if (dimension.global - dimension.tile >= array[i]) return false;
  }
  return true;
}

}  // namespace

std::int64_t clipped_bound(const TypedProblem& padded, const Shape& array, std::int64_t bound) {
  const bool is_unique = has_all_tiles(padded.source(), array) && has_all_tiles(padded.target(), array);
  ClippedPrices prices(padded, array);
  return prices.least(is_unique ? bound : std::min(bound, prices.bound_by_grids()));
}

}  // namespace retile
