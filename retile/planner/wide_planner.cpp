// Wide plans: at most one slice, one exchange or alltoall, and one gather, each over several dimensions at once (the
// three-step theorem, docs/theory.md). Without exchanges: as few alltoalls and permutations as possible.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "retile/base/error.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/lowering.h"
#include "retile/planner/planned_steps.h"
#include "retile/planner/routing.h"

namespace retile {
namespace {

// The grids of a wide plan: the source is sliced to the first, steps lead from each to the next, and the target is
// gathered from the last.
struct WideGrids {
  std::vector<Cuts> stops;
  std::int64_t local_size = 1;  // equal on all of them

  const Cuts& sliced() const { return stops.front(); }
  const Cuts& dealt() const { return stops.back(); }
};

// A candidate for the middle of a plan without exchanges: its depth and its number of steps.
struct PortableCandidate {
  std::vector<int> totals;  // cuts by each prime
  int steps = 1;
  std::int64_t cost = 0;
};

class WidePlanner {
 public:
  WidePlanner(const TypedProblem& problem, const PlanOptions& options)
      : problem_(problem),
        options_(options),
        cuts_(cut_problem_of(problem)),
        global_(problem.source().global_shape()),
        budget_(options.effort) {
    router_ = cuts_.primes.size() <= 1 ? make_digit_router(problem, cuts_, budget_)
                                       : make_table_router(problem, cuts_, budget_);
  }

  // Plans over tables of digits where devices are too many to list, otherwise over tables of tiles.
  PlannedSteps plan() {
    const bool is_large = cuts_.device_count > most_tabled_devices && cuts_.primes.size() == 1;
    if (is_large && has_exchanges()) {
      return plan_between(digit_table(problem_.source()), digit_table(problem_.target()));
    }
    source_ = tile_table(problem_.source());
    target_ = tile_table(problem_.target());
    return plan_between(source_, target_);
  }

 private:
  static constexpr std::int64_t units_of_judgement = WorkBudget::units / 500;

  // --- Over tables of tiles and tables of digits.

  template <typename Table>
  PlannedSteps plan_between(const Table& source, const Table& target) {
    if (const auto both = common_refinement(); both && slices_lead_to_gathers(*both)) {
      const Table middle = deal(source, target, cuts_.grid(*both), target);
      return {exchange_steps(source, middle, middle, target), gather_cost(*both)};
    }
    if (!has_exchanges()) return plan_portable();
    const WideGrids grids = natural_grids(needs_gather() ? deepest() : cuts_.target_total);
    const std::int64_t bound = grids.local_size + gather_cost(grids.dealt());
    const Table sliced = deal_toward(source, cuts_.grid(grids.sliced()), target);
    const Table dealt = deal_toward(target, cuts_.grid(grids.dealt()), sliced);
    if (const auto layers = alltoall_layers(grids)) {
      if (const auto routes = alltoall_routes(grids, *layers, sliced, dealt)) {
        return {alltoall_steps(grids, *routes, target), bound};
      }
    }
    return {exchange_steps(source, sliced, dealt, target), bound};
  }

  // Routes for alltoalls in place of the exchange; nothing where devices would receive more by them. Both plans have
  // the same cost and number of steps.
  std::optional<std::vector<TileTable>> alltoall_routes(const WideGrids& grids, const std::vector<Cuts>& layers,
                                                        const TileTable& sliced, const TileTable& dealt) const {
    const std::int64_t lacked = grids.local_size - least_kept(global_, sliced, dealt);
    if (grids.local_size - grids.local_size / merge_factor(grids) > lacked) return std::nullopt;
    return router_->routes(layers);
  }
  // Routes for alltoalls wherever digits suffice.
  std::optional<std::vector<DigitTable>> alltoall_routes(const WideGrids& /*grids*/, const std::vector<Cuts>& layers,
                                                         const DigitTable& /*sliced*/,
                                                         const DigitTable& /*dealt*/) const {
    return router_->digit_routes(layers);
  }

  template <typename Table>
  void add_alltoall(const Table& before, const Table& after, std::vector<Step>& steps) const {
    AllToAllStep alltoall{moves_between(grid_of(before), grid_of(after)), {}};
    steps.push_back(make_step(global_, std::move(alltoall), before, after));
  }

  // The steps with one exchange where the stops differ. Every device keeps as much as possible of what it has.
  template <typename Table>
  std::vector<Step> exchange_steps(const Table& source, const Table& sliced, const Table& dealt,
                                   const Table& target) const {
    std::vector<Step> steps;
    add_slice(global_, source, sliced, steps);
    if (!(sliced == dealt)) steps.push_back(make_step(global_, ExchangeStep{}, sliced, dealt));
    add_gather(global_, dealt, target, steps);
    return steps;
  }

  // The steps with alltoalls from grid to grid, by routes through the layers of alltoall_layers().
  template <typename Table>
  std::vector<Step> alltoall_steps(const WideGrids& grids, const std::vector<Table>& routes,
                                   const Table& target) const {
    std::vector<Step> steps;
    Table current = routes.front();
    for (std::size_t k = 0; k < grids.stops.size(); ++k) {
      const Table& next_layer = k + 1 == grids.stops.size() ? target : routes[k + 1];
      Table next = deal(routes[k], next_layer, cuts_.grid(grids.stops[k]), k == 0 ? target : current);
      if (k == 0) {
        add_slice(global_, current, next, steps);
      } else {
        add_alltoall(current, next, steps);
      }
      current = std::move(next);
    }
    add_gather(global_, current, target, steps);
    return steps;
  }

  // --- What a plan may and must do.

  bool has_exchanges() const { return options_.executor.transport == Executor::Transport::messages; }

  bool needs_gather() const {
    for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
      if (cuts_.source_total[p] > cuts_.target_total[p]) return true;
    }
    return false;
  }

  // The cost of the gather: the target's local size where the grid is finer than the target's, else 0.
  std::int64_t gather_cost(const Cuts& dealt) const {
    for (std::size_t at = 0; at < dealt.size(); ++at) {
      if (dealt[at] > cuts_.target[at]) return cuts_.target_size;
    }
    return 0;
  }

  std::vector<int> deepest() const {
    std::vector<int> totals(cuts_.primes.size());
    for (std::size_t p = 0; p < totals.size(); ++p) totals[p] = cuts_.deepest(p);
    return totals;
  }

  std::int64_t local_size_at(const std::vector<int>& totals) const {
    std::int64_t size = cuts_.source_size;
    for (std::size_t p = 0; p < totals.size(); ++p) {
      for (int i = cuts_.source_total[p]; i < totals[p]; ++i) size /= cuts_.primes[p];
    }
    return size;
  }

  // --- Slice, then gather, with nothing in between: possible where every device can slice off what it will gather.

  // The coarsest grid that is finer than both ends; nothing where the mesh has too few axes for it.
  std::optional<Cuts> common_refinement() const {
    Cuts both = cuts_.source;
    for (std::size_t at = 0; at < both.size(); ++at) both[at] = std::max(both[at], cuts_.target[at]);
    for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
      int total = 0;
      for (int i = 0; i < cuts_.rank; ++i) total += both[cuts_.at(p, i)];
      if (total > cuts_.supply[p]) return std::nullopt;
    }
    return both;
  }

  bool slices_lead_to_gathers(const Cuts& both) {
    std::vector<Cuts> layers{cuts_.source};
    if (both != cuts_.target) layers.push_back(cuts_.target);
    return router_->judge(layers) == Verdict::lowers;
  }

  // --- Grids.

  // Adds cuts to dimensions, up to `wanted` in all: first where `toward` is cut deeper, then anywhere.
  void deepen(Cuts& cuts, std::size_t prime, int wanted, const Cuts& toward) const {
    for (const Cuts* limit : {&toward, &cuts_.capacity}) {
      for (int i = 0; i < cuts_.rank && wanted > 0; ++i) {
        std::int8_t& cut = cuts[cuts_.at(prime, i)];
        const int more = std::clamp((*limit)[cuts_.at(prime, i)] - cut, 0, wanted);
        cut = static_cast<std::int8_t>(cut + more);
        wanted -= more;
      }
    }
    ensure(wanted == 0, "cuts fit: three-step theorem");
  }

  // The grids of this depth that have as much as possible in common.
  WideGrids natural_grids(const std::vector<int>& totals) const {
    WideGrids grids{{cuts_.source, cuts_.target}, local_size_at(totals)};
    for (std::size_t p = 0; p < totals.size(); ++p) {
      deepen(grids.stops[0], p, totals[p] - cuts_.source_total[p], cuts_.target);
      deepen(grids.stops[1], p, totals[p] - cuts_.target_total[p], grids.stops[0]);
    }
    return grids;
  }

  // --- Moves.

  // Pairs the dimensions whose local size grows with those whose local size shrinks.
  static std::vector<Move> moves_between(const Grid& before, const Grid& after) {
    std::vector<Move> moves;
    Shape gains(before.size());
    Shape losses(before.size());
    for (std::size_t i = 0; i < before.size(); ++i) {
      gains[i] = before[i] / std::gcd(before[i], after[i]);
      losses[i] = after[i] / std::gcd(before[i], after[i]);
    }
    for (std::size_t from = 0; from < gains.size(); ++from) {
      for (std::size_t to = 0; to < losses.size(); ++to) {
        const std::int64_t factor = std::gcd(gains[from], losses[to]);
        if (factor == 1) continue;
        moves.push_back({static_cast<int>(from), static_cast<int>(to), factor});
        gains[from] /= factor;
        losses[to] /= factor;
      }
    }
    return moves;
  }

  // Whether one alltoall leads from one grid to the other. In an alltoall a dimension may not grow by one prime and
  // shrink by another.
  bool is_one_alltoall(const Cuts& before, const Cuts& after) const {
    for (int i = 0; i < cuts_.rank; ++i) {
      bool grows = false;
      bool shrinks = false;
      for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
        grows = grows || before[cuts_.at(p, i)] > after[cuts_.at(p, i)];
        shrinks = shrinks || before[cuts_.at(p, i)] < after[cuts_.at(p, i)];
      }
      if (grows && shrinks) return false;
    }
    return true;
  }

  // The grids after each of the alltoalls that lead from one grid to the other. Each alltoall does all primes that it
  // can: so there is one if one suffices, and at most one per prime.
  std::vector<Cuts> alltoall_stops(const Cuts& before, const Cuts& after) const {
    std::vector<Cuts> stops;
    for (Cuts current = before; current != after; stops.push_back(current)) {
      const Cuts last = current;
      for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
        Cuts further = current;
        for (int i = 0; i < cuts_.rank; ++i) further[cuts_.at(p, i)] = after[cuts_.at(p, i)];
        if (is_one_alltoall(last, further)) current = std::move(further);
      }
    }
    return stops;
  }

  // The layers of the alltoalls from grid to grid; nothing where devices cannot be routed through them.
  std::optional<std::vector<Cuts>> alltoall_layers(const WideGrids& grids) {
    std::vector<Cuts> layers{cuts_.source};
    for (std::size_t k = 1; k < grids.stops.size(); ++k) {
      const Cuts& before = grids.stops[k - 1];
      const Cuts& after = grids.stops[k];
      if (before == after || !is_one_alltoall(before, after)) return std::nullopt;
      Cuts& merged = layers.emplace_back(before);
      for (std::size_t at = 0; at < merged.size(); ++at) merged[at] = std::min(merged[at], after[at]);
    }
    if (grids.dealt() != cuts_.target) layers.push_back(cuts_.target);
    const Verdict verdict = budget_.is_spent() ? Verdict::undecided : router_->judge(layers);
    budget_.spend(units_of_judgement);
    has_undecided_ = has_undecided_ || verdict == Verdict::undecided;
    if (verdict != Verdict::lowers) return std::nullopt;
    return layers;
  }

  // The number of devices that exchange parts of one box in an alltoall between the grids.
  std::int64_t merge_factor(const WideGrids& grids) const {
    std::int64_t factor = 1;
    for (int i = 0; i < cuts_.rank; ++i) {
      const std::int64_t before = cuts_.tiles(grids.sliced(), i);
      factor *= before / std::gcd(before, cuts_.tiles(grids.dealt(), i));
    }
    return factor;
  }

  // The steps with alltoalls where the grids differ, and a permutation after them.
  std::vector<Step> permuted_steps(const WideGrids& grids) const {
    TileTable current = deal_toward(source_, cuts_.grid(grids.sliced()), target_);
    const TileTable dealt = deal_toward(target_, cuts_.grid(grids.dealt()), current);
    std::vector<Step> steps;
    add_slice(global_, source_, current, steps);
    for (const Cuts& stop : alltoall_stops(grids.sliced(), grids.dealt())) {
      const Grid grid = cuts_.grid(stop);
      TileTable next = deal_toward(coarsen(current, common_grid(current.grid, grid)), grid, dealt);
      add_alltoall(current, next, steps);
      current = std::move(next);
    }
    if (!(current == dealt)) steps.push_back(make_step(global_, PermuteStep{}, current, dealt));
    add_gather(global_, dealt, target_, steps);
    return steps;
  }

  // --- Without exchanges: candidates by rising cost, until one is possible.

  PlannedSteps plan_portable() {
    std::optional<std::int64_t> unrefuted;  // cost of the first candidate that was neither found possible nor refuted
    for (const PortableCandidate& candidate : portable_candidates()) {
      has_undecided_ = false;
      if (auto steps = portable_steps(candidate)) return {std::move(*steps), unrefuted.value_or(candidate.cost)};
      if (has_undecided_ && !unrefuted) unrefuted = candidate.cost;
    }
    throw InternalError("an alltoall per prime and a permutation always do");
  }

  std::vector<PortableCandidate> portable_candidates() const;
  std::optional<std::vector<Step>> portable_steps(const PortableCandidate& candidate);
  std::optional<std::vector<Step>> short_portable_steps(const PortableCandidate& candidate);
  std::vector<Cuts> grids_from(const Cuts& start, const std::vector<int>& totals, std::int64_t most);
  std::optional<std::vector<Step>> one_step(const Cuts& from, const Cuts& to, std::int64_t local_size);
  std::optional<std::vector<Step>> two_steps(const Cuts& from, const Cuts& to, std::int64_t local_size,
                                             const std::vector<Cuts>& middle);

  const TypedProblem& problem_;
  const PlanOptions& options_;
  const CutProblem cuts_;
  const Shape global_;
  WorkBudget budget_;
  std::unique_ptr<Router> router_;
  TileTable source_;  // empty where tables of digits are used
  TileTable target_;
  bool has_undecided_ = false;  // some candidate was neither found possible nor refuted
};

// All depths, between the two, at which the target may be cut before the gathers.
std::vector<std::vector<int>> all_depths(const std::vector<int>& first, const std::vector<int>& last) {
  std::vector<std::vector<int>> depths{{}};
  for (std::size_t p = 0; p < first.size(); ++p) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& depth : depths) {
      for (int total = first[p]; total <= last[p]; ++total) {
        longer.push_back(depth);
        longer.back().push_back(total);
      }
    }
    depths = std::move(longer);
  }
  return depths;
}

// Adds every way to cut deeper, to the totals, to `all`, until it has `most` entries.
void all_deeper(const CutProblem& problem, const std::vector<int>& totals, Cuts& cuts, std::size_t at, int left,
                std::size_t most, std::vector<Cuts>& all) {
  if (all.size() >= most) return;
  const auto rank = static_cast<std::size_t>(problem.rank);
  if (at == cuts.size()) {
    if (left == 0) all.push_back(cuts);
    return;
  }
  const std::size_t prime = at / rank;
  if (at % rank == 0) {
    if (left != 0) return;
    left = totals[prime];
    for (int i = 0; i < problem.rank; ++i) left -= cuts[problem.at(prime, i)];
  }
  const std::int8_t original = cuts[at];
  for (int more = 0; more <= left && original + more <= problem.capacity[at]; ++more) {
    cuts[at] = static_cast<std::int8_t>(original + more);
    all_deeper(problem, totals, cuts, at + 1, left - more, most, all);
  }
  cuts[at] = original;
}

std::vector<PortableCandidate> WidePlanner::portable_candidates() const {
  std::vector<int> first(cuts_.primes.size());
  for (std::size_t p = 0; p < first.size(); ++p) first[p] = std::max(cuts_.source_total[p], cuts_.target_total[p]);
  std::vector<PortableCandidate> candidates;
  for (const std::vector<int>& totals : all_depths(first, deepest())) {
    const std::int64_t gather = totals == cuts_.target_total ? 0 : cuts_.target_size;
    for (int steps = 1; steps <= static_cast<int>(cuts_.primes.size()) + 1; ++steps) {
      candidates.push_back({totals, steps, steps * local_size_at(totals) + gather});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const PortableCandidate& a, const PortableCandidate& b) {
    return std::tie(a.cost, a.steps) < std::tie(b.cost, b.steps);
  });
  return candidates;
}

std::optional<std::vector<Step>> WidePlanner::portable_steps(const PortableCandidate& candidate) {
  if (candidate.steps <= 2) {
    if (auto steps = short_portable_steps(candidate)) return steps;
  } else {
    has_undecided_ = true;
  }
  // Otherwise tries the natural grids of this depth.
  const WideGrids grids = natural_grids(candidate.totals);
  const auto steps = static_cast<int>(alltoall_stops(grids.sliced(), grids.dealt()).size()) + 1;
  if (steps != candidate.steps) return std::nullopt;
  return permuted_steps(grids);
}

std::optional<std::vector<Step>> WidePlanner::short_portable_steps(const PortableCandidate& candidate) {
  const std::vector<Cuts> sliced = grids_from(cuts_.source, candidate.totals, 200);
  const std::vector<Cuts> dealt = grids_from(cuts_.target, candidate.totals, 200);
  const std::vector<Cuts> middle =
      candidate.steps == 1 ? std::vector<Cuts>{} : grids_from(Cuts(cuts_.source.size()), candidate.totals, 50);
  const std::int64_t local_size = local_size_at(candidate.totals);
  for (const Cuts& from : sliced) {
    for (const Cuts& to : dealt) {
      auto steps = candidate.steps == 1 ? one_step(from, to, local_size) : two_steps(from, to, local_size, middle);
      if (steps) return steps;
    }
  }
  return std::nullopt;
}

// The first `most` grids (at effort 1) of the depth that are at least as fine as `start`. The caller's work grows with
// pairs of them.
std::vector<Cuts> WidePlanner::grids_from(const Cuts& start, const std::vector<int>& totals, std::int64_t most) {
  std::vector<Cuts> grids;
  const auto most_grids = static_cast<std::size_t>(std::ceil(static_cast<double>(most) * std::sqrt(options_.effort)));
  Cuts cuts = start;
  all_deeper(cuts_, totals, cuts, 0, 0, most_grids, grids);
  has_undecided_ = has_undecided_ || grids.size() == most_grids;
  return grids;
}

// The steps of one permutation or one alltoall; nothing where that does not suffice.
std::optional<std::vector<Step>> WidePlanner::one_step(const Cuts& from, const Cuts& to, std::int64_t local_size) {
  if (from == to) return permuted_steps({{from, to}, local_size});
  if (!is_one_alltoall(from, to)) return std::nullopt;
  const WideGrids grids{{from, to}, local_size};
  if (const auto layers = alltoall_layers(grids)) return alltoall_steps(grids, *router_->routes(*layers), target_);
  return std::nullopt;
}

// The steps of an alltoall and a permutation, or of two alltoalls by way of a third grid; nothing where those do not
// suffice.
std::optional<std::vector<Step>> WidePlanner::two_steps(const Cuts& from, const Cuts& to, std::int64_t local_size,
                                                        const std::vector<Cuts>& middle) {
  if (is_one_alltoall(from, to)) return permuted_steps({{from, to}, local_size});
  budget_.spend(static_cast<std::int64_t>(middle.size()));
  has_undecided_ = has_undecided_ || budget_.is_spent();
  for (const Cuts& between : middle) {
    if (budget_.is_spent()) return std::nullopt;
    if (!is_one_alltoall(from, between) || !is_one_alltoall(between, to)) continue;
    const WideGrids grids{{from, between, to}, local_size};
    if (const auto layers = alltoall_layers(grids)) return alltoall_steps(grids, *router_->routes(*layers), target_);
  }
  return std::nullopt;
}

}  // namespace

PlannedSteps plan_wide(const TypedProblem& problem, const PlanOptions& options) {
  return WidePlanner(problem, options).plan();
}

}  // namespace retile
