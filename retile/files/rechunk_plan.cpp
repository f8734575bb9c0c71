#include "retile/files/rechunk_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"
#include "retile/files/cut_dimension.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

constexpr double most_shapes = 2e5;            // of regions that one search looks at
constexpr double most_shapes_between = 2e3;    // and that it looks at for each intermediate chunking
constexpr std::int64_t least_block = 1 << 16;  // bytes of an intermediate chunk that is worth a request
constexpr std::int64_t most_listed_units = 1 << 16;

std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  return checked_multiply(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}
std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  return checked_add(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}
std::int64_t saturated_product(const Shape& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1},
                         [](std::int64_t a, std::int64_t b) { return saturated_product(a, b); });
}

// --- One dimension of a pass.

// What regions of so many target chunks along a dimension mean for it.
struct DimensionChoice {
  std::int64_t chunks_per_region = 1;
  std::int64_t regions = 1;
  std::int64_t shares = 1;   // of processes
  std::int64_t units = 0;    // that regions meet, each counted for each of them
  std::int64_t covered = 0;  // elements of these units
  std::int64_t pieces = 0;   // of chunks, one for each region that a chunk meets
  std::int64_t whole = 0;    // pieces that are whole chunks
};

struct DimensionPair {
  CutDimension source;
  CutDimension target;
  std::int64_t shard = 0;  // elements; 0 where there are none

  DimensionChoice choose(std::int64_t chunks_per_region) const {
    DimensionChoice choice{chunks_per_region, divide_up(target.chunks(), chunks_per_region)};
    const std::int64_t extent = saturated_product(chunks_per_region, target.chunk);
    choice.shares = divide_up(target.size, share_extent(extent, shard, target.size));
    for (std::int64_t i = 0; i < choice.regions; ++i) {
      const Interval region{i * extent, extent > source.size - i * extent ? source.size : (i + 1) * extent};
      const std::int64_t first = source.unit_at(region.lo);
      const std::int64_t last = source.unit_at(region.hi - 1);
      choice.units += last - first + 1;
      choice.covered += source.unit_interval(last).hi - source.unit_interval(first).lo;
      const std::int64_t chunks = (region.hi - 1) / source.chunk - region.lo / source.chunk + 1;
      choice.pieces += chunks;
      choice.whole += std::max<std::int64_t>(0, region.hi / source.chunk - divide_up(region.lo, source.chunk));
    }
    return choice;
  }

  // Target chunks that are not complete while the units along the dimension are read in order, at most.
  std::int64_t most_open() const {
    const std::int64_t units = source.unit_at(source.size - 1) + 1;
    if (units > most_listed_units)
      return std::min(target.chunks(), (source.unit + target.chunk - 2) / target.chunk + 1);
    std::int64_t most = 1;
    for (std::int64_t i = 0; i < units; ++i) {
      const Interval unit = source.unit_interval(i);
      const std::int64_t end = std::min(unit.hi, source.size);
      if (unit.lo >= end) continue;
      most = std::max(most, (end - 1) / target.chunk - unit.lo / target.chunk + 1);
    }
    return most;
  }
};

std::vector<DimensionPair> dimension_pairs(const PassProblem& problem) {
  std::vector<DimensionPair> pairs;
  for (std::size_t i = 0; i < problem.shape.size(); ++i) {
    const std::int64_t size = problem.shape[i];
    const std::int64_t chunk = problem.target.chunk[i];
    const std::int64_t shard = problem.target.shard.empty() ? 0 : problem.target.shard[i];
    pairs.push_back({{size, problem.source.chunk[i], problem.source.unit[i]}, {size, chunk, chunk}, shard});
  }
  return pairs;
}

// Numbers of target chunks that are worth a look: all where they are few; else the smallest for each number of regions,
// and multiples that end where units do.
std::vector<std::int64_t> candidate_counts(const DimensionPair& pair, std::int64_t most) {
  const std::int64_t chunks = pair.target.chunks();
  std::set<std::int64_t> counts{1, chunks};
  if (chunks <= most) {
    for (std::int64_t i = 2; i < chunks; ++i) counts.insert(i);
    return {counts.begin(), counts.end()};
  }
  const double ratio = std::pow(static_cast<double>(chunks), 2.0 / static_cast<double>(most));
  const std::int64_t aligned = std::lcm(pair.source.unit, pair.target.chunk) / pair.target.chunk;
  for (double regions = 1; regions < static_cast<double>(chunks); regions = std::max(regions + 1, regions * ratio)) {
    const std::int64_t smallest = divide_up(chunks, static_cast<std::int64_t>(regions));
    counts.insert(smallest);
    if (divide_up(smallest, aligned) <= chunks / aligned) counts.insert(divide_up(smallest, aligned) * aligned);
  }
  return {counts.begin(), counts.end()};
}

// --- One pass.

// Byte ranges that lie together in their chunks: a piece is as many runs as it has elements before the last dimension,
// in the order of the chunk, in which it is not whole.
double range_requests(const PassProblem& problem, const std::vector<DimensionChoice>& choices) {
  double requests = 1;
  for (const DimensionChoice& choice : choices) requests *= static_cast<double>(choice.whole);
  double before = 1;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::size_t dimension = problem.source.order[i];
    double runs = before * static_cast<double>(choices[dimension].pieces - choices[dimension].whole);
    for (std::size_t j = i + 1; j < choices.size(); ++j) {
      runs *= static_cast<double>(choices[problem.source.order[j]].whole);
    }
    requests += runs;
    before *= static_cast<double>(problem.shape[dimension]);
  }
  return requests;
}

std::int64_t rounded(double number) {
  constexpr double most = 9e18;
  return number > most ? std::numeric_limits<std::int64_t>::max() : std::llround(number);
}

class PassSearch {
 public:
  PassSearch(const PassProblem& problem, const RechunkOptions& options, double most_shapes_here)
      : problem_(problem),
        options_(options),
        pairs_(dimension_pairs(problem)),
        target_chunk_bytes_(saturated_product(saturated_product(problem.target.chunk), problem.element_size)) {
    const double rank = std::max<double>(1, static_cast<double>(pairs_.size()));
    const auto most = std::max<std::int64_t>(4, static_cast<std::int64_t>(std::pow(most_shapes_here, 1 / rank)));
    for (const DimensionPair& pair : pairs_) {
      candidates_.emplace_back();
      for (const std::int64_t count : candidate_counts(pair, most)) candidates_.back().push_back(pair.choose(count));
      open_.push_back(pair.most_open());
    }
    for (const DimensionPair& pair : pairs_) {
      target_chunks_ = saturated_product(target_chunks_, pair.target.chunks());
    }
  }

  std::optional<PassPlan> best() {
    if (problem_.source.has_ranges) search(ReadMode::ranges, std::nullopt);
    search(ReadMode::units, std::nullopt);
    for (std::size_t i = 0; i < pairs_.size(); ++i) search(ReadMode::units, i);
    return best_;
  }

  std::optional<PassPlan> evaluate(ReadMode mode, std::optional<std::size_t> swept, const Shape& chunks_per_region) {
    std::vector<DimensionChoice> choices;
    for (std::size_t i = 0; i < pairs_.size(); ++i) choices.push_back(pairs_[i].choose(chunks_per_region[i]));
    consider(mode, swept, choices);
    return best_;
  }

 private:
  void search(ReadMode mode, std::optional<std::size_t> swept) {
    std::vector<DimensionChoice> choices(pairs_.size());
    search_from(0, mode, swept, choices, 1);
  }

  void search_from(std::size_t dimension, ReadMode mode, std::optional<std::size_t> swept,
                   std::vector<DimensionChoice>& choices, std::int64_t open) {
    if (saturated_product(open, target_chunk_bytes_) > options_.max_bytes) return;
    if (dimension == pairs_.size()) return consider(mode, swept, choices);
    const auto try_choice = [&](const DimensionChoice& choice) {
      choices[dimension] = choice;
      search_from(dimension + 1, mode, swept, choices, saturated_product(open, open_along(dimension, swept, choice)));
    };
    // A swept dimension is cut for several processes alone.
    if (swept == dimension && options_.processes == 1) return try_choice(candidates_[dimension].back());
    for (const DimensionChoice& choice : candidates_[dimension]) try_choice(choice);
  }

  std::int64_t open_along(std::size_t dimension, std::optional<std::size_t> swept,
                          const DimensionChoice& choice) const {
    return swept == dimension ? std::min(open_[dimension], choice.chunks_per_region) : choice.chunks_per_region;
  }

  std::int64_t open_chunks(std::optional<std::size_t> swept, const std::vector<DimensionChoice>& choices) const {
    std::int64_t open = 1;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      open = saturated_product(open, open_along(i, swept, choices[i]));
    }
    return open;
  }

  void consider(ReadMode mode, std::optional<std::size_t> swept, const std::vector<DimensionChoice>& choices) {
    const std::int64_t open = open_chunks(swept, choices);
    const PassSource& source = problem_.source;
    const std::int64_t reading = mode == ReadMode::ranges ? source.range_thread_bytes : source.thread_bytes;
    const std::int64_t thread = saturated_sum(reading, problem_.target.thread_bytes);
    const std::int64_t for_threads = options_.max_bytes - saturated_product(open, target_chunk_bytes_);
    if (for_threads < thread) return;
    const int threads =
        static_cast<int>(std::min<std::int64_t>(options_.threads, for_threads / std::max<std::int64_t>(1, thread)));
    const auto size = static_cast<double>(problem_.element_size);
    double elements = 1;
    double units = 1;
    std::int64_t shares = 1;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      elements *= static_cast<double>(mode == ReadMode::ranges ? problem_.shape[i] : choices[i].covered);
      units *= static_cast<double>(choices[i].units);
      shares = saturated_product(shares, choices[i].shares);
    }
    const double busiest =
        static_cast<double>(divide_up(shares, std::int64_t{options_.processes})) / static_cast<double>(shares);
    const double requests =
        (mode == ReadMode::ranges ? range_requests(problem_, choices) : units) + static_cast<double>(target_chunks_);
    const double written = static_cast<double>(target_chunks_) * static_cast<double>(target_chunk_bytes_);
    const FileCosts& costs = options_.costs;
    const double decoded = problem_.source.has_ranges ? 0 : elements * size;
    const double all_seconds = elements * size / costs.read_rate + written / costs.write_rate +
                               decoded / costs.decode_rate / threads + requests * costs.request_seconds;
    const double seconds = all_seconds * busiest;
    if (best_ && (seconds > best_->seconds || (seconds == best_->seconds && open >= best_->open_chunks))) return;
    PassPlan plan;
    plan.problem = problem_;
    plan.mode = mode;
    plan.swept = swept;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      plan.region.push_back(saturated_product(choices[i].chunks_per_region, problem_.target.chunk[i]));
      plan.regions = saturated_product(plan.regions, choices[i].regions);
    }
    plan.open_chunks = open;
    plan.threads = threads;
    plan.memory_bytes = open * target_chunk_bytes_ + threads * thread;
    plan.read_bytes = rounded(elements * size);
    plan.written_bytes = rounded(written);
    plan.requests = rounded(requests);
    plan.seconds = seconds;
    best_ = plan;
  }

  const PassProblem& problem_;
  const RechunkOptions& options_;
  std::vector<DimensionPair> pairs_;
  std::vector<std::vector<DimensionChoice>> candidates_;  // by dimension, rising; the last one is the whole dimension
  std::vector<std::int64_t> open_;                        // by dimension, where it is swept
  std::int64_t target_chunk_bytes_;
  std::int64_t target_chunks_ = 1;
  std::optional<PassPlan> best_;
};

// --- Several passes.

// Sizes of intermediate chunks along a dimension: those of both sides, halved and doubled.
std::vector<std::int64_t> intermediate_sizes(const DimensionPair& pair) {
  std::set<std::int64_t> sizes{pair.source.size, std::gcd(pair.source.unit, pair.target.chunk)};
  for (const std::int64_t size : {pair.source.unit, pair.target.chunk}) {
    for (const std::int64_t factor : {1, 4, 16}) {
      sizes.insert(std::max<std::int64_t>(1, size / factor));
      sizes.insert(std::min(pair.source.size, saturated_product(size, factor)));
    }
  }
  return {sizes.begin(), sizes.end()};
}

void for_each_intermediate(const PassProblem& problem, const std::function<void(const Shape&)>& visit) {
  const std::vector<DimensionPair> pairs = dimension_pairs(problem);
  Shape chunk(pairs.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t dimension) {
    if (dimension == pairs.size()) return visit(chunk);
    for (const std::int64_t size : intermediate_sizes(pairs[dimension])) {
      chunk[dimension] = size;
      choose(dimension + 1);
    }
  };
  choose(0);
}

PassProblem pass_to(const PassProblem& problem, const Shape& chunk) {
  return {problem.shape, problem.element_size, problem.source, {chunk, 0}};
}

PassProblem pass_from(const PassProblem& problem, const Shape& chunk) {
  const std::int64_t bytes = saturated_product(saturated_product(chunk), problem.element_size);
  DimensionOrder order(chunk.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return {problem.shape, problem.element_size, {chunk, chunk, order, true, bytes}, problem.target};
}

std::int64_t least_pass_memory(const PassProblem& problem) {
  const std::int64_t chunk = saturated_product(saturated_product(problem.target.chunk), problem.element_size);
  const PassSource& source = problem.source;
  const std::int64_t reading =
      source.has_ranges ? std::min(source.range_thread_bytes, source.thread_bytes) : source.thread_bytes;
  return saturated_sum(chunk, saturated_sum(reading, problem.target.thread_bytes));
}

// Intermediate chunks of fewer bytes are not worth a request, unless the array is as small.
bool is_worth_it(const PassProblem& problem, const Shape& chunk, std::int64_t most) {
  const std::int64_t bytes = saturated_product(saturated_product(chunk), problem.element_size);
  return bytes <= most && bytes >= least_block;
}

std::optional<std::vector<PassPlan>> plan_two_passes(const PassProblem& problem, const RechunkOptions& options) {
  std::optional<Shape> best;
  double least = std::numeric_limits<double>::max();
  for_each_intermediate(problem, [&](const Shape& chunk) {
    if (!is_worth_it(problem, chunk, options.max_bytes)) return;
    const auto first = PassSearch(pass_to(problem, chunk), options, most_shapes_between).best();
    if (!first || first->seconds >= least) return;
    const auto second = PassSearch(pass_from(problem, chunk), options, most_shapes_between).best();
    if (!second || first->seconds + second->seconds >= least) return;
    least = first->seconds + second->seconds;
    best = chunk;
  });
  if (!best) return std::nullopt;
  return std::vector<PassPlan>{*plan_pass(pass_to(problem, *best), options),
                               *plan_pass(pass_from(problem, *best), options)};
}

double seconds_of(const std::vector<PassPlan>& passes) {
  return std::accumulate(passes.begin(), passes.end(), 0.0,
                         [](double sum, const PassPlan& pass) { return sum + pass.seconds; });
}

// Intermediate chunks that change from those of the source to those of the target by equal factors.
std::vector<Shape> even_stops(const PassProblem& problem, std::size_t count) {
  std::vector<Shape> stops;
  for (std::size_t stop = 1; stop <= count; ++stop) {
    const double share = static_cast<double>(stop) / static_cast<double>(count + 1);
    stops.emplace_back();
    for (const DimensionPair& pair : dimension_pairs(problem)) {
      const double from = std::log(static_cast<double>(pair.source.unit));
      const double to = std::log(static_cast<double>(pair.target.chunk));
      stops.back().push_back(std::max<std::int64_t>(1, std::llround(std::exp(from + share * (to - from)))));
    }
  }
  return stops;
}

// Each stop is replaced by the best one between its neighbours, twice over.
std::optional<std::vector<PassPlan>> plan_many_passes(const PassProblem& problem, const RechunkOptions& options,
                                                      std::size_t count) {
  std::vector<Shape> stops = even_stops(problem, count - 1);
  const auto leg_after = [&](std::size_t stop) { return pass_from(problem, stops[stop]); };
  for (std::size_t i = 0; i < 2 * stops.size(); ++i) {
    const std::size_t stop = i % stops.size();
    PassProblem around = stop == 0 ? problem : leg_after(stop - 1);
    around.target = stop + 1 == stops.size() ? problem.target : PassTarget{stops[stop + 1], 0};
    const auto best = plan_two_passes(around, options);
    if (!best) return std::nullopt;
    stops[stop] = best->front().problem.target.chunk;
  }
  std::vector<PassPlan> passes;
  for (std::size_t i = 0; i < count; ++i) {
    PassProblem leg = i == 0 ? problem : leg_after(i - 1);
    leg.target = i + 1 == count ? problem.target : PassTarget{stops[i], 0};
    const auto pass = plan_pass(leg, options);
    if (!pass) return std::nullopt;
    passes.push_back(*pass);
  }
  return passes;
}

std::optional<std::vector<PassPlan>> plan_passes(const PassProblem& problem, const RechunkOptions& options,
                                                 std::size_t count) {
  if (count == 2) return plan_two_passes(problem, options);
  if (count > 2) return plan_many_passes(problem, options, count);
  const std::optional<PassPlan> one = plan_pass(problem, options);
  return one ? std::optional(std::vector{*one}) : std::nullopt;
}

// --- Bounds.

std::int64_t stored_bytes(const PassProblem& problem, const Shape& chunk) {
  std::int64_t bytes = problem.element_size;
  for (std::size_t i = 0; i < chunk.size(); ++i) {
    bytes = saturated_product(bytes, saturated_product(divide_up(problem.shape[i], chunk[i]), chunk[i]));
  }
  return bytes;
}

std::int64_t least_read(const PassProblem& problem) {
  std::int64_t bytes = problem.element_size;
  for (const DimensionPair& pair : dimension_pairs(problem)) {
    const std::int64_t covered = pair.source.unit_interval(pair.source.unit_at(pair.source.size - 1)).hi;
    bytes = saturated_product(bytes, problem.source.has_ranges ? pair.source.size : covered);
  }
  return bytes;
}

// Passes that merge or split as many ways as blocks fit in memory (Aggarwal and Vitter, 1988).
int least_passes(const PassProblem& problem, const RechunkOptions& options) {
  const double regions = static_cast<double>(least_read(problem)) / static_cast<double>(options.max_bytes);
  const double ways = static_cast<double>(options.max_bytes) / static_cast<double>(least_block);
  if (regions <= 1 || ways <= 2) return 1;
  return std::max(1, static_cast<int>(std::ceil(std::log(regions) / std::log(ways))));
}

// What plans of so many passes take at least: the source is read once, the target written once, and the array written
// and read once more for each further pass.
double least_seconds(const PassProblem& problem, const RechunkOptions& options, std::size_t passes) {
  const FileCosts& costs = options.costs;
  const auto read = static_cast<double>(least_read(problem));
  const auto written = static_cast<double>(stored_bytes(problem, problem.target.chunk));
  const double between =
      static_cast<double>(saturated_product(saturated_product(problem.shape), problem.element_size)) *
      static_cast<double>(passes - 1);
  const double decoded = problem.source.has_ranges ? 0 : read / costs.decode_rate / options.threads;
  return ((read + between) / costs.read_rate + (written + between) / costs.write_rate + decoded) / options.processes;
}

std::int64_t least_memory(const PassProblem& problem) {
  std::int64_t least = least_pass_memory(problem);
  for_each_intermediate(problem, [&](const Shape& chunk) {
    if (!is_worth_it(problem, chunk, least)) return;
    least = std::min(
        least, std::max(least_pass_memory(pass_to(problem, chunk)), least_pass_memory(pass_from(problem, chunk))));
  });
  return least;
}

}  // namespace

std::int64_t RechunkPlan::read_bytes() const {
  return std::accumulate(passes.begin(), passes.end(), std::int64_t{0},
                         [](std::int64_t sum, const PassPlan& pass) { return sum + pass.read_bytes; });
}

std::int64_t RechunkPlan::written_bytes() const {
  return std::accumulate(passes.begin(), passes.end(), std::int64_t{0},
                         [](std::int64_t sum, const PassPlan& pass) { return sum + pass.written_bytes; });
}

std::int64_t RechunkPlan::memory_bytes() const {
  std::int64_t most = 0;
  for (const PassPlan& pass : passes) most = std::max(most, pass.memory_bytes);
  return most;
}

double RechunkPlan::seconds() const { return seconds_of(passes); }

std::int64_t share_extent(std::int64_t region, std::int64_t shard, std::int64_t size) {
  if (region >= size) return region;
  const std::int64_t regions = shard == 0 ? 1 : shard / std::gcd(region, shard);
  return saturated_product(region, regions);
}

std::optional<PassPlan> plan_pass(const PassProblem& problem, const RechunkOptions& options) {
  return PassSearch(problem, options, most_shapes).best();
}

std::optional<PassPlan> evaluate_pass(const PassProblem& problem, const RechunkOptions& options, ReadMode mode,
                                      std::optional<std::size_t> swept, const Shape& chunks_per_region) {
  return PassSearch(problem, options, most_shapes).evaluate(mode, swept, chunks_per_region);
}

RechunkPlan plan_rechunk(const PassProblem& problem, const RechunkOptions& options, std::int64_t unavoidable_bytes) {
  RechunkBounds bounds{least_read(problem), stored_bytes(problem, problem.target.chunk), least_memory(problem),
                       least_passes(problem, options)};
  if (bounds.least_memory_bytes > options.max_bytes) {
    const std::int64_t smallest = saturated_sum(bounds.least_memory_bytes, unavoidable_bytes);
    throw MemoryLimitError(fmt::format("no plan needs less than {} bytes", group_digits(smallest)),
                           fmt::format("the smallest cap that works is {}; smaller chunks need less", smallest));
  }
  RechunkPlan plan{{}, bounds};
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t count = 1;; ++count) {
    plan.more_seconds = least_seconds(problem, options, count);
    if (plan.more_seconds >= best) break;
    const auto passes = plan_passes(problem, options, count);
    const double seconds = passes ? seconds_of(*passes) : std::numeric_limits<double>::infinity();
    plan.seconds_by_passes.push_back(seconds);
    if (seconds < best) {
      plan.passes = *passes;
      best = seconds;
    } else if (!plan.passes.empty()) {  // where one more does not help, others would do less and less
      plan.more_seconds = least_seconds(problem, options, count + 1);
      break;
    }
    ensure(count == 1 || !plan.passes.empty(), "a plan fits into the least memory");
  }
  return plan;
}

}  // namespace retile::files
