#include "retile/planner/path_search.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

// The price of a path. The least cost wins, then the fewest steps, then the fewest elements that a device receives.
struct Price {
  std::int64_t cost = any_cost;
  int steps = 0;
  std::int64_t received = 0;

  bool operator<(const Price& other) const {
    return std::tie(cost, steps, received) < std::tie(other.cost, other.steps, other.received);
  }
};

// A depth: how often each prime cuts the array at the bottom of a path, after its slices.
struct Depth {
  std::vector<int> totals;  // cuts by each prime
  std::int64_t local_size = 1;
  bool gathers = false;
  std::int64_t lower_bound = 0;
};

class Search {
 public:
  Search(const CutProblem& problem, const Judge& judge, WorkBudget& budget, const CostModel& model, std::int64_t below)
      : problem_(problem), judge_(judge), budget_(budget), model_(model), width_(problem.source.size()), best_{below} {}

  SearchResult run() {
    list_depths();
    std::int64_t unexplored = any_cost;
    for (const Depth& depth : depths_) {
      if (depth.lower_bound > best_.cost) break;  // depths ascend by their bounds
      if (budget_.is_spent()) {
        unexplored = std::min(unexplored, depth.lower_bound);
        continue;
      }
      explore(depth);
      if (budget_.is_spent()) {  // all paths of this depth with fewer moves than in the last round were seen
        const std::int64_t rest =
            (move_count_ - 1) * least_move_cost(local_size_) + least_gather_cost(local_size_, gathers_);
        unexplored = std::min(unexplored, std::max(depth.lower_bound, rest));
      }
    }
    ensure(best_.cost != any_cost || is_limited(), "every problem has a plan");
    SearchResult result;
    result.path = std::move(best_path_);
    result.cost = best_.cost;
    result.lower_bound = std::min({best_.cost, undecided_, unexplored});
    result.proved = result.lower_bound == result.cost;
    return result;
  }

 private:
  // The number of nodes spent on paths that can only win by what devices receive.
  static constexpr std::int64_t most_tie_nodes = 2000;

  // --- Prices of single steps, by the cost model.

  std::int64_t cost_of(StepOp op, std::int64_t before, std::int64_t after, std::int64_t received) const {
    return model_.cost({op, before, after, received, problem_.element_size});
  }
  std::int64_t move_cost(std::int64_t factor) const { return alltoall_cost(local_size_, factor); }
  // The cost of the cheapest move: one among the fewest devices, which receive the least.
  std::int64_t least_move_cost(std::int64_t local_size) const {
    return alltoall_cost(local_size, problem_.primes.empty() ? local_size : problem_.primes.front());
  }
  std::int64_t alltoall_cost(std::int64_t size, std::int64_t factor) const {
    return cost_of(StepOp::alltoall, size, size, size - size / factor);
  }
  std::int64_t gather_cost(std::int64_t before, std::int64_t after) const {
    return cost_of(StepOp::allgather, before, after, after - before);
  }
  std::int64_t least_gather_cost(std::int64_t local_size, bool gathers) const {
    return gathers ? gather_cost(local_size, problem_.target_size) : 0;
  }

  // --- The limit on what devices hold.

  bool is_limited() const { return problem_.most_held != any_cost; }
  bool is_too_large(const Cuts& cuts) const { return is_limited() && problem_.held(cuts) > problem_.most_held; }

  // --- Depths.

  void list_depths() {
    Depth depth;
    depth.totals.resize(problem_.primes.size());
    for (std::size_t p = 0; p < depth.totals.size(); ++p) {
      depth.totals[p] = std::max(problem_.source_total[p], problem_.target_total[p]);
    }
    const std::vector<int> first = depth.totals;
    for (;;) {
      add_depth(depth);
      std::size_t p = 0;
      for (; p < first.size() && depth.totals[p] == problem_.deepest(p); ++p) depth.totals[p] = first[p];
      if (p == first.size()) break;
      ++depth.totals[p];
    }
    std::stable_sort(depths_.begin(), depths_.end(),
                     [](const Depth& a, const Depth& b) { return a.lower_bound < b.lower_bound; });
  }

  void add_depth(Depth depth) {
    depth.local_size = problem_.source_size;
    bool covered = true;  // slices alone can make all the cuts that the source lacks
    for (std::size_t p = 0; p < depth.totals.size(); ++p) {
      for (int i = problem_.source_total[p]; i < depth.totals[p]; ++i) depth.local_size /= problem_.primes[p];
      depth.gathers = depth.gathers || depth.totals[p] != problem_.target_total[p];
      int lacking = 0;
      for (int i = 0; i < problem_.rank; ++i) {
        lacking += std::max(0, problem_.target[problem_.at(p, i)] - problem_.source[problem_.at(p, i)]);
      }
      covered = covered && lacking <= depth.totals[p] - problem_.source_total[p];
    }
    depth.lower_bound =
        (covered ? 0 : least_move_cost(depth.local_size)) + least_gather_cost(depth.local_size, depth.gathers);
    depths_.push_back(std::move(depth));
  }

  void explore(const Depth& depth) {
    local_size_ = depth.local_size;
    gathers_ = depth.gathers;
    totals_ = &depth.totals;
    stack_.assign(1, problem_.source);
    layers_.assign(1, problem_.source);
    moves_.clear();
    go_straight();
    // Explores few moves first: the cheapest path with a permutation then bounds the number of moves worth exploring.
    const std::int64_t gather = least_gather_cost(local_size_, gathers_);
    for (move_count_ = 0; move_count_ * least_move_cost(local_size_) + gather <= best_.cost && !budget_.is_spent();
         ++move_count_) {
      slice(0, 0, depth.totals.empty() ? 0 : depth.totals[0] - problem_.source_total[0]);
    }
  }

  // --- A path that always exists: slices toward the target, then moves straight from dimensions with too many cuts to
  // those that lack some. A search that ends early has this path at least, and its cost bounds all others from the
  // start.

  void go_straight() {
    for (std::size_t p = 0; p < problem_.primes.size(); ++p) slice_toward_target(p);
    count_slice_steps();
    int k = 0;
    std::int64_t cost = 0;
    bool fits = !is_too_large(stack_[0]);
    for (int from = 0; from < problem_.rank; ++from) {
      for (int to = 0; to < problem_.rank; ++to) {
        const std::int64_t factor = move_straight(static_cast<std::size_t>(k), from, to);
        if (factor == 1) continue;
        moves_.push_back({from, to, factor});
        cost += move_cost(factor);
        ++k;
        fits = fits && !is_too_large(stack_[static_cast<std::size_t>(k)]);
      }
    }
    if (fits) finish(k, cost);
    moves_.clear();
    stack_[0] = problem_.source;
  }

  void slice_toward_target(std::size_t prime) {
    int left = (*totals_)[prime] - problem_.source_total[prime];
    for (const Cuts* limit : {&problem_.target, &problem_.capacity}) {
      for (int i = 0; i < problem_.rank; ++i) {
        std::int8_t& cut = stack_[0][problem_.at(prime, i)];
        const int more = std::clamp((*limit)[problem_.at(prime, i)] - cut, 0, left);
        cut = static_cast<std::int8_t>(cut + more);
        left -= more;
      }
    }
  }

  // Moves as many cuts as `from` has too many and `to` lacks. Returns the factor; 1 where nothing moves.
  std::int64_t move_straight(std::size_t now, int from, int to) {
    if (stack_.size() <= now + 1) stack_.emplace_back(width_);
    if (layers_.size() <= now + 1) layers_.emplace_back(width_);
    stack_[now + 1] = stack_[now];
    layers_[now + 1] = stack_[now];
    std::int64_t factor = 1;
    for (std::size_t p = 0; p < problem_.primes.size(); ++p) {
      const std::size_t giver = problem_.at(p, from);
      const std::size_t taker = problem_.at(p, to);
      while (stack_[now + 1][giver] > problem_.target[giver] && stack_[now + 1][taker] < problem_.target[taker]) {
        --stack_[now + 1][giver];
        --layers_[now + 1][giver];
        ++stack_[now + 1][taker];
        factor *= problem_.primes[p];
      }
    }
    return factor;
  }

  // --- Slices: every way to make the depth's cuts, prime by prime and dimension by dimension.

  void slice(std::size_t prime, int dimension, int left) {
    if (budget_.is_spent()) return;
    if (prime == problem_.primes.size()) {
      count_slice_steps();
      move(0, 0);
      return;
    }
    if (dimension == problem_.rank) {
      if (left > 0) return;
      const std::size_t next = prime + 1;
      const int more = next == problem_.primes.size() ? 0 : (*totals_)[next] - problem_.source_total[next];
      slice(next, 0, more);
      return;
    }
    const std::size_t at = problem_.at(prime, dimension);
    const int room = problem_.capacity[at] - problem_.source[at];
    // Slices first where the target is cut deeper: such paths tend to be cheap.
    for (int count = std::min(left, room); count >= 0; --count) {
      stack_[0][at] = static_cast<std::int8_t>(problem_.source[at] + count);
      slice(prime, dimension + 1, left - count);
    }
    stack_[0][at] = problem_.source[at];
  }

  void count_slice_steps() {
    slice_steps_ = 0;
    for (int i = 0; i < problem_.rank; ++i) slice_steps_ += is_cut_deeper(stack_[0], problem_.source, i) ? 1 : 0;
  }

  bool is_cut_deeper(const Cuts& cuts, const Cuts& than, int dimension) const {
    for (std::size_t p = 0; p < problem_.primes.size(); ++p) {
      if (cuts[problem_.at(p, dimension)] > than[problem_.at(p, dimension)]) return true;
    }
    return false;
  }

  // The number of dimensions that are cut less deep than the target's: each needs a move of its own.
  int count_lacking(const Cuts& cuts) const {
    int lacking = 0;
    for (int i = 0; i < problem_.rank; ++i) lacking += is_cut_deeper(problem_.target, cuts, i) ? 1 : 0;
    return lacking;
  }

  // --- Moves: stack_[k] are the cuts after k moves, layers_[k] those between the merge and the cut.

  void move(int k, std::int64_t cost) {
    ++nodes_;
    budget_.spend(units_of_node);
    if (budget_.is_spent()) return;
    const Cuts& cuts = stack_[static_cast<std::size_t>(k)];
    const int lacking = count_lacking(cuts);
    if (k + lacking > move_count_ || is_too_large(cuts)) return;
    const int left = move_count_ - k;
    const Price least{cost + left * least_move_cost(local_size_) + least_gather_cost(local_size_, gathers_),
                      slice_steps_ + move_count_ + (gathers_ ? 1 : 0), nodes_ < most_tie_nodes ? 0 : best_.received};
    if (!(least < best_)) return;
    if (left == 0) return finish(k, cost);
    const std::size_t next = static_cast<std::size_t>(k) + 1;
    if (stack_.size() <= next) stack_.emplace_back(width_);
    if (layers_.size() <= next) layers_.emplace_back(width_);
    for (int to = 0; to < problem_.rank; ++to) {
      // With only as many moves left as dimensions lack cuts, every move must serve one of those dimensions.
      if (left == lacking && !is_cut_deeper(problem_.target, stack_[static_cast<std::size_t>(k)], to)) continue;
      for (int from = 0; from < problem_.rank; ++from) {
        const bool again = k > 0 && moves_.back().from == from && moves_.back().to == to;
        if (from != to && !again) move_between(k, cost, from, to);
      }
    }
  }

  // Tries every factor that can go from one dimension to the other.
  void move_between(int k, std::int64_t cost, int from, int to) {
    const auto now = static_cast<std::size_t>(k);
    stack_[now + 1] = stack_[now];
    layers_[now + 1] = stack_[now];
    std::int64_t factor = 1;
    for (;;) {
      // Counts through the exponents of the factor, prime by prime.
      std::size_t p = 0;
      for (; p < problem_.primes.size(); ++p) {
        std::int8_t& taken = stack_[now + 1][problem_.at(p, from)];
        std::int8_t& given = stack_[now + 1][problem_.at(p, to)];
        const bool fits = taken > 0 && given < problem_.capacity[problem_.at(p, to)];
        if (fits) {
          --taken;
          ++given;
          factor *= problem_.primes[p];
          break;
        }
        for (; taken < stack_[now][problem_.at(p, from)]; ++taken, --given) factor /= problem_.primes[p];
      }
      if (p == problem_.primes.size()) return;
      for (std::size_t q = 0; q < problem_.primes.size(); ++q) {
        layers_[now + 1][problem_.at(q, from)] = stack_[now + 1][problem_.at(q, from)];
      }
      moves_.push_back({from, to, factor});
      move(k + 1, cost + move_cost(factor));
      moves_.pop_back();
      if (budget_.is_spent()) return;
    }
  }

  // --- Ends.

  // The cost of the gathers and their number: one per dimension, cheapest first.
  Price gather_price(const Cuts& cuts) {
    gather_factors_.clear();
    for (int i = 0; i < problem_.rank; ++i) {
      const std::int64_t factor = problem_.tiles(cuts, i) / problem_.tiles(problem_.target, i);
      if (factor > 1) gather_factors_.push_back(factor);
    }
    std::sort(gather_factors_.begin(), gather_factors_.end());
    Price price{0, static_cast<int>(gather_factors_.size()), problem_.target_size - local_size_};
    std::int64_t size = local_size_;
    for (const std::int64_t factor : gather_factors_) {
      price.cost += gather_cost(size, size * factor);
      size *= factor;
    }
    return price;
  }

  void finish(int k, std::int64_t cost) {
    const Price gathers = gather_price(stack_[static_cast<std::size_t>(k)]);
    Price plain{cost + gathers.cost, slice_steps_ + k + gathers.steps, gathers.received};
    for (const Move& move : moves_) plain.received += local_size_ - local_size_ / move.factor;
    if (!(plain < best_)) return;
    const std::int64_t permutation = cost_of(StepOp::allpermute, local_size_, local_size_, local_size_);
    const Price permuted{plain.cost + permutation, plain.steps + 1, plain.received + local_size_};
    if (permuted < best_) record(permuted, k, true);

    const std::size_t layers = static_cast<std::size_t>(k) + 1;
    if (layers_.size() <= layers) layers_.emplace_back(width_);
    if (gathers.steps > 0) layers_[layers] = problem_.target;
    const Verdict verdict = judge_(std::span(layers_).first(layers + (gathers.steps > 0 ? 1 : 0)));
    if (verdict == Verdict::lowers) record(plain, k, false);
    if (verdict == Verdict::undecided) undecided_ = std::min(undecided_, plain.cost);
  }

  void record(const Price& price, int k, bool permuted) {
    best_ = price;
    best_path_.source = problem_.grid(problem_.source);
    best_path_.sliced = problem_.grid(stack_[0]);
    best_path_.moves.assign(moves_.begin(), moves_.end());
    best_path_.moved = problem_.grid(stack_[static_cast<std::size_t>(k)]);
    best_path_.target = problem_.grid(problem_.target);
    best_path_.permuted = permuted;
  }

  const CutProblem& problem_;
  const Judge& judge_;
  WorkBudget& budget_;
  const CostModel& model_;
  const std::size_t width_;

  std::vector<Depth> depths_;
  const std::vector<int>* totals_ = nullptr;
  std::int64_t local_size_ = 1;  // at the bottom of the paths being explored
  bool gathers_ = false;
  int slice_steps_ = 0;
  int move_count_ = 0;  // of the paths being explored
  std::vector<Cuts> stack_;
  std::vector<Cuts> layers_;
  std::vector<Move> moves_;
  std::vector<std::int64_t> gather_factors_;
  std::int64_t nodes_ = 0;

  Price best_;  // at first the cost that paths have to beat, with 0 steps so that an equal cost does not win
  NormalPath best_path_;
  std::int64_t undecided_ = any_cost;
};

}  // namespace

SearchResult search_paths(const CutProblem& problem, const Judge& judge, WorkBudget& budget,
                          const CostModel& cost_model, std::int64_t below) {
  return Search(problem, judge, budget, cost_model, below).run();
}

}  // namespace retile
