// Routing by digits. On a mesh of p-sized axes a device is a vector over the field of p elements, one coordinate
// (digit) per axis. The cuts of a dimension are numbered from major to minor as levels. While level l of dimension i is
// there, it is a function of the devices: which of the p parts they are in. Neighbouring layers are used evenly iff the
// functions of all levels in either of them are independent, and a level that stays keeps its function. Levels of the
// source and of the target have digits as their functions; those in between may be chosen freely, as sums of digits.
#include <algorithm>
#include <array>
#include <bit>

#include "retile/base/error.h"
#include "retile/base/list.h"
#include "retile/planner/routing.h"

namespace retile {
namespace {

// A linear function of the devices: coefficients of the digits.
using Function = std::vector<std::int32_t>;

// A level's stay: the first and last of a run of layers that all have the level.
struct Episode {
  int dimension;
  int level;  // from 1, major to minor
  std::size_t first;
  std::size_t last;
  Function function;
};

class DigitRouter : public Router {
 public:
  DigitRouter(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget)
      : problem_(problem),
        cuts_(cuts),
        budget_(budget),
        digit_count_(static_cast<int>(problem.mesh().prime_parts().size())),
        source_levels_(digit_levels(problem.source())),
        target_levels_(digit_levels(problem.target())) {
    ensure(cuts.primes.size() <= 1, "digits are for meshes of a single prime");
    common_.reserve(source_levels_.size());
    for (int i = 0; i < cuts.rank; ++i) {
      const std::vector<int>& from = at(source_levels_, i);
      const std::vector<int>& to = at(target_levels_, i);
      const auto differ = std::mismatch(from.begin(), from.end(), to.begin(), to.end());
      common_.push_back(static_cast<int>(differ.first - from.begin()));
    }
  }

  Verdict judge(std::span<const Cuts> layers) override {
    measure(layers);
    if (!kept_levels_agree(layers) || !fixed_digits_are_distinct(layers)) return Verdict::refuted;
    if (!has_free_levels(layers)) return Verdict::lowers;
    if (budget_.is_spent()) return Verdict::undecided;
    list_episodes(layers);
    return find_functions() ? Verdict::lowers : Verdict::undecided;
  }

  std::optional<std::vector<TileTable>> routes(std::span<const Cuts> layers) override {
    measure(layers);
    list_episodes(layers);
    if (!find_functions()) return std::nullopt;
    std::vector<TileTable> routes;
    for (std::size_t k = 0; k < layers.size(); ++k) routes.push_back({cuts_.grid(layers[k]), tiles_in(k)});
    return routes;
  }

  std::optional<std::vector<DigitTable>> digit_routes(std::span<const Cuts> layers) override {
    measure(layers);
    list_episodes(layers);
    if (!find_functions()) return std::nullopt;
    std::vector<DigitTable> tables(layers.size(), {problem_.mesh(), DigitLevels(static_cast<std::size_t>(cuts_.rank))});
    for (const Episode& episode : episodes_) {
      const int digit = sole_digit(episode.function);
      if (digit < 0) return std::nullopt;
      for (std::size_t k = episode.first; k <= episode.last; ++k) {
        std::vector<int>& levels = at(tables[k].levels, episode.dimension);
        levels.resize(std::max(levels.size(), static_cast<std::size_t>(episode.level)));
        levels[static_cast<std::size_t>(episode.level) - 1] = digit;
      }
    }
    return tables;
  }

 private:
  enum class Choice { digits, sums };  // what functions are made of

  static constexpr std::int64_t most_tries = 4096;  // per judgement, for digits and for sums each, at effort 1
  static constexpr std::int64_t units_of_try = 100;
  static constexpr std::int64_t most_summed_devices = 4096;

  static int sole_digit(const Function& function) {
    int found = -1;
    for (std::size_t d = 0; d < function.size(); ++d) {
      if (function[d] == 0) continue;
      if (found >= 0 || function[d] != 1) return -1;
      found = static_cast<int>(d);
    }
    return found;
  }

  std::size_t index(std::size_t layer, int dimension) const {
    return layer * static_cast<std::size_t>(cuts_.rank) + static_cast<std::size_t>(dimension);
  }

  // Counts the levels of each dimension that have been there since the source, and those that stay until the target.
  void measure(std::span<const Cuts> layers) {
    const std::size_t size = layers.size() * static_cast<std::size_t>(cuts_.rank);
    since_source_.resize(size);
    until_target_.resize(size);
    for (int i = 0; i < cuts_.rank; ++i) {
      const auto d = static_cast<std::size_t>(i);
      int depth = cuts_.primes.empty() ? 0 : layers[0][d];
      for (std::size_t k = 0; k < layers.size(); ++k) {
        depth = std::min(depth, cuts_.primes.empty() ? 0 : int{layers[k][d]});
        since_source_[index(k, i)] = depth;
      }
      depth = static_cast<int>(target_levels_[d].size());
      for (std::size_t k = layers.size(); k-- > 0;) {
        depth = std::min(depth, cuts_.primes.empty() ? 0 : int{layers[k][d]});
        until_target_[index(k, i)] = depth;
      }
    }
  }

  // Whether every level that is there all the way has the same digit in source and target.
  bool kept_levels_agree(std::span<const Cuts> layers) const {
    for (int i = 0; i < cuts_.rank; ++i) {
      const int kept = std::min(since_source_[index(layers.size() - 1, i)], until_target_[index(layers.size() - 1, i)]);
      if (kept > at(common_, i)) return false;
    }
    return true;
  }

  static std::uint32_t digit_mask(const std::vector<int>& levels, int count) {
    std::uint32_t mask = 0;
    for (int l = 0; l < count; ++l) mask |= 1U << static_cast<unsigned>(at(levels, l));
    return mask;
  }

  // Whether, in neighbouring layers, digits of source levels that are still there differ from digits of target levels
  // that are already there, except where both are the same level.
  bool fixed_digits_are_distinct(std::span<const Cuts> layers) const {
    for (std::size_t k = 1; k < layers.size(); ++k) {
      std::uint32_t from = 0;
      std::uint32_t to = 0;
      std::uint32_t kept = 0;
      for (int i = 0; i < cuts_.rank; ++i) {
        const auto d = static_cast<std::size_t>(i);
        const int old_levels = since_source_[index(k - 1, i)];
        const int new_levels = until_target_[index(k, i)];
        from |= digit_mask(source_levels_[d], old_levels);
        to |= digit_mask(target_levels_[d], new_levels);
        kept |= digit_mask(source_levels_[d], std::min(old_levels, new_levels));
      }
      if ((from & to) != kept) return false;
    }
    return true;
  }

  bool has_free_levels(std::span<const Cuts> layers) const {
    for (std::size_t k = 0; k < layers.size(); ++k) {
      for (int i = 0; i < cuts_.rank; ++i) {
        if (depth(layers, k, i) > std::max(since_source_[index(k, i)], until_target_[index(k, i)])) return true;
      }
    }
    return false;
  }

  int depth(std::span<const Cuts> layers, std::size_t k, int dimension) const {
    return cuts_.primes.empty() ? 0 : at(layers[k], dimension);
  }

  Function digit(int number) const {
    Function function(static_cast<std::size_t>(digit_count_));
    at(function, number) = 1;
    return function;
  }

  // Lists all levels of all layers: first the fixed ones with their digits, then the free ones without functions.
  void list_episodes(std::span<const Cuts> layers) {
    layer_count_ = layers.size();
    episodes_.clear();
    std::vector<Episode> free;
    for (int i = 0; i < cuts_.rank; ++i) {
      const auto d = static_cast<std::size_t>(i);
      int deepest = 0;
      for (std::size_t k = 0; k < layers.size(); ++k) deepest = std::max(deepest, depth(layers, k, i));
      for (int level = 1; level <= deepest; ++level) {
        for (std::size_t k = 0; k < layers.size(); ++k) {
          if (depth(layers, k, i) < level) continue;
          const std::size_t first = k;
          while (k + 1 < layers.size() && depth(layers, k + 1, i) >= level) ++k;
          Episode episode{i, level, first, k, {}};
          const auto l = static_cast<std::size_t>(level) - 1;
          if (level <= since_source_[index(first, i)]) {
            episode.function = digit(source_levels_[d][l]);
          } else if (level <= until_target_[index(k, i)]) {
            episode.function = digit(target_levels_[d][l]);
          }
          (episode.function.empty() ? free : episodes_).push_back(std::move(episode));
        }
      }
    }
    fixed_count_ = episodes_.size();
    episodes_.insert(episodes_.end(), free.begin(), free.end());
  }

  // Chooses functions for the free episodes: digits where they suffice; otherwise sums of digits, if devices are few
  // enough for tables. False where none were found within the tries.
  bool find_functions() {
    if (find_functions_among(Choice::digits)) return true;
    return cuts_.device_count <= most_summed_devices && find_functions_among(Choice::sums);
  }

  bool find_functions_among(Choice choice) {
    choice_ = choice;
    const std::int64_t tries = budget_.scaled(most_tries);
    tries_left_ = tries;
    const bool found = choose_functions(0);
    budget_.spend((tries - tries_left_) * units_of_try);
    return found;
  }

  // Chooses functions for the free episodes from number `next` on.
  bool choose_functions(std::size_t next) {
    if (fixed_count_ + next == episodes_.size()) return true;
    Episode& episode = episodes_[fixed_count_ + next];
    for (int d = 0; d < digit_count_; ++d) {
      if (try_function(episode, digit(d), next)) return true;
    }
    const std::int64_t prime = cuts_.primes.front();
    Function counter(static_cast<std::size_t>(digit_count_));
    while (choice_ == Choice::sums && tries_left_ > 0) {  // all functions, as numbers with the coefficients as digits
      std::size_t d = 0;
      while (d < counter.size() && counter[d] == prime - 1) counter[d++] = 0;
      if (d == counter.size()) break;
      ++counter[d];
      if (try_function(episode, counter, next)) return true;
    }
    episode.function.clear();
    return false;
  }

  bool try_function(Episode& episode, Function function, std::size_t next) {
    if (tries_left_ == 0) return false;
    --tries_left_;
    episode.function = std::move(function);
    return is_independent(episode) && choose_functions(next + 1);
  }

  // Whether the known functions are independent in all pairs of layers that the episode is in.
  bool is_independent(const Episode& episode) const {
    const std::size_t first = std::max<std::size_t>(1, episode.first);
    const std::size_t last = std::min(layer_count_ - 1, episode.last + 1);
    for (std::size_t k = first; k <= last; ++k) {
      if (!(cuts_.primes.front() == 2 ? are_independent_bits(k) : are_independent_around(k))) return false;
    }
    return true;
  }

  // Calls visit(function) for every level of layers k - 1 and k that has one.
  template <typename Visit>
  void for_each_function(std::size_t k, Visit visit) const {
    for (const Episode& episode : episodes_) {
      const bool there = episode.first <= k && episode.last + 1 >= k;
      if (there && !episode.function.empty()) visit(episode.function);
    }
  }

  bool are_independent_around(std::size_t k) const {
    std::vector<Function> functions;
    for_each_function(k, [&](const Function& function) { functions.push_back(function); });
    return are_independent(std::move(functions), cuts_.primes.front());
  }

  // Independence modulo 2: a function is a set of bits, kept by its highest one.
  bool are_independent_bits(std::size_t k) const {
    std::array<std::uint32_t, 32> by_highest{};
    bool independent = true;
    for_each_function(k, [&](const Function& function) {
      std::uint32_t bits = 0;
      for (std::size_t d = 0; d < function.size(); ++d) bits |= static_cast<std::uint32_t>(function[d]) << d;
      while (bits != 0) {
        std::uint32_t& known = at(by_highest, 31 - std::countl_zero(bits));
        if (known == 0) {
          known = bits;
          return;
        }
        bits ^= known;
      }
      independent = false;
    });
    return independent;
  }

  // Gaussian elimination modulo the prime.
  static bool are_independent(std::vector<Function> rows, std::int64_t prime) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto pivot = std::find_if(rows[r].begin(), rows[r].end(), [](std::int32_t c) { return c != 0; });
      if (pivot == rows[r].end()) return false;
      const auto column = static_cast<std::size_t>(pivot - rows[r].begin());
      for (std::size_t below = r + 1; below < rows.size(); ++below) {
        // rows[below] · pivot - rows[r] · entry clears the column without a division.
        const std::int64_t entry = rows[below][column];
        const std::int64_t scale = rows[r][column];
        for (std::size_t c = 0; entry != 0 && c < rows[below].size(); ++c) {
          const std::int64_t value = (rows[below][c] * scale % prime - rows[r][c] * entry % prime) % prime;
          rows[below][c] = static_cast<std::int32_t>(value < 0 ? value + prime : value);
        }
      }
    }
    return true;
  }

  std::int64_t value_of(const Function& function, Device device) const {
    std::int64_t sum = 0;
    const std::vector<AxisPart>& digits = problem_.mesh().prime_parts();
    for (std::size_t d = 0; d < digits.size(); ++d) {
      if (function[d] != 0) sum += function[d] * problem_.mesh().coordinate(device, digits[d]);
    }
    return sum % cuts_.primes.front();
  }

  std::vector<std::int32_t> tiles_in(std::size_t layer) const {
    const auto rank = static_cast<std::size_t>(cuts_.rank);
    std::vector<std::int32_t> tiles(static_cast<std::size_t>(cuts_.device_count) * rank);
    // Fixed episodes of a dimension have ascending levels, and so have free ones, but not both together: sort them
    // once.
    std::vector<const Episode*> present;
    for (const Episode& episode : episodes_) {
      if (episode.first <= layer && layer <= episode.last) present.push_back(&episode);
    }
    std::sort(present.begin(), present.end(), [](const Episode* a, const Episode* b) { return a->level < b->level; });
    for (Device device = 0; device < cuts_.device_count; ++device) {
      std::int32_t* row = tiles.data() + static_cast<std::size_t>(device) * rank;
      for (const Episode* episode : present) {
        std::int32_t& tile = row[episode->dimension];
        tile = static_cast<std::int32_t>(tile * cuts_.primes.front() + value_of(episode->function, device));
      }
    }
    return tiles;
  }

  const TypedProblem problem_;
  const CutProblem& cuts_;
  WorkBudget& budget_;
  int digit_count_;
  DigitLevels source_levels_;
  DigitLevels target_levels_;
  std::vector<int> common_;  // leading levels of each dimension with the same digit in source and target

  // State of the last judgement.
  std::vector<int> since_source_;
  std::vector<int> until_target_;
  std::size_t layer_count_ = 0;
  std::size_t fixed_count_ = 0;
  std::vector<Episode> episodes_;
  std::int64_t tries_left_ = 0;
  Choice choice_ = Choice::digits;
};

}  // namespace

std::unique_ptr<Router> make_digit_router(const TypedProblem& problem, const CutProblem& cuts, WorkBudget& budget) {
  return std::make_unique<DigitRouter>(problem, cuts, budget);
}

}  // namespace retile
