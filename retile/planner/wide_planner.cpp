// Wide plans: at most one slice, one exchange or alltoall, one gather, each over several dimensions at once (the
// three-step theorem, docs/theory.md). Without exchanges: alltoalls and permutations, as few as will do.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "retile/base/error.h"
#include "retile/planner/cut_problem.h"
#include "retile/planner/lowering.h"
#include "retile/planner/planners.h"
#include "retile/planner/routing.h"
#include "retile/planner/symbolic_lowering.h"

namespace retile {
namespace {

// The grids of a wide plan: the source is sliced to the first, that becomes the next one, and the target is gathered
// from the last.
struct WideGrids {
  std::vector<Cuts> stops;
  std::int64_t local_size = 1;  // the same at all of them

  const Cuts& sliced() const { return stops.front(); }
  const Cuts& dealt() const { return stops.back(); }
};

// So many steps in the middle of a plan without exchanges, at this depth.
struct PortableCandidate {
  std::vector<int> totals;  // cuts by each prime
  int steps = 1;
  std::int64_t cost = 0;
};

class WidePlanner {
 public:
  WidePlanner(const Problem& problem, const PlanOptions& options)
      : problem_(problem),
        options_(options),
        cuts_(cut_problem_of(problem)),
        global_(problem.source().global_shape()),
        budget_(WorkBudget::of_effort(options.effort)) {
    router_ = cuts_.primes.size() <= 1 ? make_digit_router(problem, cuts_, budget_)
                                       : make_table_router(problem, cuts_, budget_);
    if (is_symbolic()) {
      source_digits_ = digit_table(problem.source());
      target_digits_ = digit_table(problem.target());
      return;
    }
    source_ = {cuts_.grid(cuts_.source), tile_table(problem.source())};
    target_ = {cuts_.grid(cuts_.target), tile_table(problem.target())};
  }

  PlannedSteps plan() {
    if (is_symbolic()) return plan_symbolically();
    if (auto planned = plan_without_exchange_of_data()) return std::move(*planned);
    if (options_.exchange == ExchangeUse::avoided) return plan_portable();
    const WideGrids grids = natural_grids(needs_gather() ? deepest() : cuts_.target_total);
    const std::int64_t bound = grids.local_size + gather_cost(grids.dealt());
    // Of two plans that cost the same and have as many steps, the one that lets devices receive less.
    const GridTable sliced = deal_toward(source_, cuts_.grid(grids.sliced()), target_);
    const GridTable dealt = deal_toward(target_, cuts_.grid(grids.dealt()), sliced);
    const auto layers = alltoall_layers(grids);
    if (layers && grids.local_size - grids.local_size / merge_factor(grids) <= most_lacked(sliced, dealt)) {
      return {alltoall_steps(grids, *layers), bound};
    }
    return {exchange_steps(sliced, dealt), bound};
  }

 private:
  // --- Meshes with too many devices to list, of a single prime: stages are types.

  bool is_symbolic() const {
    return cuts_.device_count > most_tabled_devices && cuts_.primes.size() == 1 &&
           options_.exchange == ExchangeUse::allowed;
  }

  PlannedSteps plan_symbolically() {
    if (const auto both = common_refinement(); both && slices_lead_to_gathers(*both)) {
      // The digits of source and target agree wherever both cut.
      const DigitTable middle =
          join_digits(problem_, source_digits_, target_digits_, cuts_.grid(*both), target_digits_);
      return {symbolic_steps({{*both}, 0}, middle, middle, StepOp::exchange), gather_cost(*both)};
    }
    const WideGrids grids = natural_grids(needs_gather() ? deepest() : cuts_.target_total);
    const std::int64_t bound = grids.local_size + gather_cost(grids.dealt());
    if (const auto layers = alltoall_layers(grids)) {
      if (const auto digits = router_->digit_routes(*layers)) {
        const DigitTable& merged = (*digits)[1];
        const DigitTable sliced =
            join_digits(problem_, source_digits_, merged, cuts_.grid(grids.sliced()), target_digits_);
        const DigitTable dealt = join_digits(problem_, merged, target_digits_, cuts_.grid(grids.dealt()), sliced);
        return {symbolic_steps(grids, sliced, dealt, StepOp::alltoall), bound};
      }
    }
    DigitTable sliced = source_digits_;
    fill_digits(problem_, cuts_.grid(grids.sliced()), target_digits_, sliced);
    DigitTable dealt = target_digits_;
    fill_digits(problem_, cuts_.grid(grids.dealt()), sliced, dealt);
    return {symbolic_steps(grids, sliced, dealt, StepOp::exchange), bound};
  }

  // Slice, communicate where the two stages differ, gather.
  std::vector<Step> symbolic_steps(const WideGrids& grids, const DigitTable& sliced, const DigitTable& dealt,
                                   StepOp op) const {
    const Shape before = cuts_.grid(grids.sliced());
    const Shape after = cuts_.grid(grids.dealt());
    std::vector<Step> steps;
    std::vector<Move> moves = slice_moves(cuts_.grid(cuts_.source), before);
    if (!moves.empty())
      steps.push_back(symbolic_step(problem_, StepOp::dynslice, std::move(moves), source_digits_, sliced));
    if (sliced != dealt) {
      moves = op == StepOp::alltoall ? moves_between(before, after) : std::vector<Move>{};
      steps.push_back(symbolic_step(problem_, op, std::move(moves), sliced, dealt));
    }
    moves = gather_moves(after, cuts_.grid(cuts_.target));
    if (!moves.empty())
      steps.push_back(symbolic_step(problem_, StepOp::allgather, std::move(moves), dealt, target_digits_));
    return steps;
  }

  static std::vector<Move> slice_moves(const Shape& before, const Shape& after) {
    std::vector<Move> moves;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (after[i] > before[i]) moves.push_back({-1, static_cast<int>(i), after[i] / before[i]});
    }
    return moves;
  }

  static std::vector<Move> gather_moves(const Shape& before, const Shape& after) {
    std::vector<Move> moves;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (before[i] > after[i]) moves.push_back({static_cast<int>(i), -1, before[i] / after[i]});
    }
    return moves;
  }

  // --- What a plan must do.

  bool needs_gather() const {
    for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
      if (cuts_.source_total[p] > cuts_.target_total[p]) return true;
    }
    return false;
  }

  // The target's local size where the grid is finer than the target's.
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

  // --- Slice, then gather, and nothing in between: where every device can slice what it will gather from.

  // The coarsest grid finer than both ends, where the mesh has axes enough for it.
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

  std::optional<PlannedSteps> plan_without_exchange_of_data() {
    const std::optional<Cuts> refined = common_refinement();
    if (!refined || !slices_lead_to_gathers(*refined)) return std::nullopt;
    const Cuts& both = *refined;
    const bool gathers = both != cuts_.target;
    const GridTable middle = gathers ? deal(source_, target_, cuts_.grid(both)) : target_;
    PlannedSteps planned;
    add_slice(middle, planned.steps);
    add_gather(middle, planned.steps);
    planned.lower_bound = gathers ? cuts_.target_size : 0;
    return planned;
  }

  // --- Grids.

  // Adds cuts to dimensions, up to `wanted` in all: first where `toward` is cut deeper, then where there is room.
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

  // Grids of this depth that have as much as possible in common.
  WideGrids natural_grids(const std::vector<int>& totals) const {
    WideGrids grids{{cuts_.source, cuts_.target}, local_size_at(totals)};
    for (std::size_t p = 0; p < totals.size(); ++p) {
      deepen(grids.stops[0], p, totals[p] - cuts_.source_total[p], cuts_.target);
      deepen(grids.stops[1], p, totals[p] - cuts_.target_total[p], grids.stops[0]);
    }
    return grids;
  }

  // --- Steps.

  void add_slice(const GridTable& after, std::vector<Step>& steps) const {
    std::vector<Move> moves = slice_moves(source_.grid, after.grid);
    if (!moves.empty()) steps.push_back(table_step(global_, StepOp::dynslice, std::move(moves), source_, after));
  }

  void add_gather(const GridTable& before, std::vector<Step>& steps) const {
    std::vector<Move> moves = gather_moves(before.grid, target_.grid);
    if (!moves.empty()) steps.push_back(table_step(global_, StepOp::allgather, std::move(moves), before, target_));
  }

  // Pairs what some dimensions gain in local size with what others lose.
  static std::vector<Move> moves_between(const Shape& before, const Shape& after) {
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

  // In an alltoall a dimension grows or shrinks; it may not grow by one prime and shrink by another.
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

  // The grids after each of the alltoalls that lead from one grid to the other: one per prime where one in all will
  // not do, neighbours joined where it will.
  std::vector<Cuts> alltoall_stops(const Cuts& before, const Cuts& after) const {
    std::vector<Cuts> stops;
    const Cuts* last = &before;
    Cuts next = before;
    stops.reserve(cuts_.primes.size());
    for (std::size_t p = 0; p < cuts_.primes.size(); ++p) {
      Cuts further = next;
      for (int i = 0; i < cuts_.rank; ++i) further[cuts_.at(p, i)] = after[cuts_.at(p, i)];
      if (!is_one_alltoall(*last, further)) {
        stops.push_back(next);
        last = &stops.back();
      }
      next = std::move(further);
    }
    if (next != *last) stops.push_back(std::move(next));
    return stops;
  }

  // The layers of the alltoalls from grid to grid, if devices can be routed through them.
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
    const Verdict verdict = judgements_left_-- > 0 ? router_->judge(layers) : Verdict::undecided;
    has_undecided_ = has_undecided_ || verdict == Verdict::undecided;
    if (verdict != Verdict::lowers) return std::nullopt;
    return layers;
  }

  // How many devices exchange parts of one box in an alltoall between the grids.
  std::int64_t merge_factor(const WideGrids& grids) const {
    std::int64_t factor = 1;
    for (int i = 0; i < cuts_.rank; ++i) {
      const std::int64_t before = cuts_.tiles(grids.sliced(), i);
      factor *= before / std::gcd(before, cuts_.tiles(grids.dealt(), i));
    }
    return factor;
  }

  // The most elements that some device has after an exchange and not before it.
  std::int64_t most_lacked(const GridTable& before, const GridTable& after) const {
    const std::size_t rank = global_.size();
    std::int64_t least_kept = std::numeric_limits<std::int64_t>::max();
    for (std::size_t device = 0; device < static_cast<std::size_t>(cuts_.device_count); ++device) {
      std::int64_t kept = 1;
      for (std::size_t i = 0; i < rank; ++i) {
        const std::int64_t a = global_[i] / before.grid[i];
        const std::int64_t b = global_[i] / after.grid[i];
        const std::int64_t p = before.tiles[device * rank + i];
        const std::int64_t q = after.tiles[device * rank + i];
        kept *= std::max<std::int64_t>(0, std::min((p + 1) * a, (q + 1) * b) - std::max(p * a, q * b));
      }
      least_kept = std::min(least_kept, kept);
    }
    std::int64_t size = 1;
    for (std::size_t i = 0; i < rank; ++i) size *= global_[i] / after.grid[i];
    return size - least_kept;
  }

  std::vector<Step> alltoall_steps(const WideGrids& grids, const std::vector<Cuts>& layers) {
    const bool gathers = grids.dealt() != cuts_.target;
    const Routes routes = router_->routes(layers);
    GridTable layer = source_;
    GridTable current;
    std::vector<Step> steps;
    for (std::size_t k = 0; k < grids.stops.size(); ++k) {
      const bool last = k + 1 == grids.stops.size();
      GridTable next_layer = last ? target_ : GridTable{cuts_.grid(layers[k + 1]), routes[k + 1]};
      GridTable next = last && !gathers ? target_ : deal(layer, next_layer, cuts_.grid(grids.stops[k]));
      if (k == 0) {
        add_slice(next, steps);
      } else {
        steps.push_back(table_step(global_, StepOp::alltoall, moves_between(current.grid, next.grid), current, next));
      }
      current = std::move(next);
      layer = std::move(next_layer);
    }
    add_gather(current, steps);
    return steps;
  }

  // Steps with one exchange; every device keeps what it can of what it has.
  std::vector<Step> exchange_steps(const GridTable& sliced, const GridTable& dealt) const {
    std::vector<Step> steps;
    add_slice(sliced, steps);
    steps.push_back(table_step(global_, StepOp::exchange, {}, sliced, dealt));
    add_gather(dealt, steps);
    return steps;
  }

  // Steps with alltoalls where the grids differ, and a permutation after them.
  std::vector<Step> permuted_steps(const WideGrids& grids) const {
    GridTable current = deal_toward(source_, cuts_.grid(grids.sliced()), target_);
    const GridTable dealt = deal_toward(target_, cuts_.grid(grids.dealt()), current);
    std::vector<Step> steps;
    add_slice(current, steps);
    for (const Cuts& stop : alltoall_stops(grids.sliced(), grids.dealt())) {
      const Shape next = cuts_.grid(stop);
      Shape common(current.grid.size());
      for (std::size_t i = 0; i < common.size(); ++i) common[i] = std::gcd(current.grid[i], next[i]);
      const GridTable merged = coarsen(current, common);
      GridTable cut = deal_toward(merged, next, dealt);
      steps.push_back(table_step(global_, StepOp::alltoall, moves_between(current.grid, cut.grid), current, cut));
      current = std::move(cut);
    }
    if (current.tiles != dealt.tiles) {
      steps.push_back(table_step(global_, StepOp::allpermute, {}, current, dealt));
    }
    add_gather(dealt, steps);
    return steps;
  }

  // --- Without exchanges: candidates by their cost, until one can be done.

  PlannedSteps plan_portable() {
    std::optional<std::int64_t> unrefuted;  // the cost of the first candidate that may be possible and was not found
    for (const PortableCandidate& candidate : portable_candidates()) {
      has_undecided_ = false;
      if (auto steps = portable_steps(candidate)) return {std::move(*steps), unrefuted.value_or(candidate.cost)};
      if (has_undecided_ && !unrefuted) unrefuted = candidate.cost;
    }
    throw InternalError("an alltoall per prime and a permutation always do");
  }

  std::vector<PortableCandidate> portable_candidates() const;
  std::optional<std::vector<Step>> portable_steps(const PortableCandidate& candidate);
  std::optional<std::vector<Step>> one_step(const WideGrids& grids);
  std::optional<std::vector<Step>> two_steps(const WideGrids& grids);

  const Problem& problem_;
  const PlanOptions& options_;
  const CutProblem cuts_;
  const Shape global_;
  WorkBudget budget_;
  std::unique_ptr<Router> router_;
  GridTable source_;  // of meshes that are tabled
  GridTable target_;
  DigitTable source_digits_;  // of the others
  DigitTable target_digits_;
  bool has_undecided_ = false;  // some candidate could not be told to be possible or not
  int judgements_left_ = 500;   // each may have to send devices one by one
};

// All depths at which the target may be cut before the gathers.
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

// Every way to cut deeper to the totals, added to `all` until there are `most`.
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
  if (candidate.steps > 2) {  // the grids that come to mind
    const WideGrids grids = natural_grids(candidate.totals);
    const auto steps = static_cast<int>(alltoall_stops(grids.sliced(), grids.dealt()).size()) + 1;
    if (steps == candidate.steps) return permuted_steps(grids);
    has_undecided_ = true;
    return std::nullopt;
  }
  constexpr std::size_t most_grids = 200;
  std::vector<Cuts> sliced;
  std::vector<Cuts> dealt;
  Cuts start = cuts_.source;
  all_deeper(cuts_, candidate.totals, start, 0, 0, most_grids, sliced);
  start = cuts_.target;
  all_deeper(cuts_, candidate.totals, start, 0, 0, most_grids, dealt);
  has_undecided_ = sliced.size() == most_grids || dealt.size() == most_grids;
  for (const Cuts& from : sliced) {
    for (const Cuts& to : dealt) {
      const WideGrids grids{{from, to}, local_size_at(candidate.totals)};
      if (auto steps = candidate.steps == 1 ? one_step(grids) : two_steps(grids)) return steps;
    }
  }
  return std::nullopt;
}

// A permutation or an alltoall.
std::optional<std::vector<Step>> WidePlanner::one_step(const WideGrids& grids) {
  if (grids.sliced() == grids.dealt()) return permuted_steps(grids);
  if (const auto layers = alltoall_layers(grids)) return alltoall_steps(grids, *layers);
  return std::nullopt;
}

// An alltoall and a permutation, or two alltoalls by way of some third grid.
std::optional<std::vector<Step>> WidePlanner::two_steps(const WideGrids& grids) {
  if (is_one_alltoall(grids.sliced(), grids.dealt())) return permuted_steps(grids);
  constexpr std::size_t most_grids = 50;
  std::vector<int> totals(cuts_.primes.size());
  for (std::size_t p = 0; p < totals.size(); ++p) {
    for (int i = 0; i < cuts_.rank; ++i) totals[p] += grids.sliced()[cuts_.at(p, i)];
  }
  Cuts start(cuts_.source.size());
  std::vector<Cuts> middle;
  all_deeper(cuts_, totals, start, 0, 0, most_grids, middle);
  has_undecided_ = has_undecided_ || middle.size() == most_grids;
  for (const Cuts& between : middle) {
    const WideGrids both{{grids.sliced(), between, grids.dealt()}, grids.local_size};
    if (const auto layers = alltoall_layers(both)) return alltoall_steps(both, *layers);
  }
  return std::nullopt;
}

}  // namespace

PlannedSteps plan_wide(const Problem& problem, const PlanOptions& options) {
  if (same_placement(problem.source(), problem.target())) return {};
  PlannedSteps planned = WidePlanner(problem, options).plan();
  if (options.cost_model != CostModel::paper) planned.lower_bound = 0;  // the bounds are of the paper's weights
  return planned;
}

}  // namespace retile
