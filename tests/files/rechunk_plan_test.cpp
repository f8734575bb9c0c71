#include "retile/files/rechunk_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "tests/support/diagnostic_of.h"

namespace retile::files {
namespace {

using test::diagnostic_of;
using Element = std::pair<std::int64_t, std::int64_t>;

// --- A pass of two dimensions, element by element.

struct Simulated {
  std::int64_t read = 0;  // elements
  std::int64_t requests = 0;
  std::size_t open = 0;
};

std::int64_t chunk_of(std::int64_t element, std::int64_t chunk) { return element / chunk; }

// Numbers that tell units apart along a dimension.
Element unit_at(std::int64_t element, std::int64_t chunk, std::int64_t unit) {
  return {element / chunk, element % chunk / unit};
}

std::int64_t unit_length(std::int64_t element, std::int64_t chunk, std::int64_t unit) {
  return std::min(unit, chunk - element % chunk / unit * unit);
}

class Simulation {
 public:
  Simulation(const PassProblem& problem, ReadMode mode, std::optional<std::size_t> swept, const Shape& region)
      : problem_(problem), mode_(mode), swept_(swept), region_(region) {}

  Simulated run() {
    for (std::int64_t i = 0; i < problem_.shape[0]; i += region_[0]) {
      for (std::int64_t j = 0; j < problem_.shape[1]; j += region_[1]) run_region(i, j);
    }
    return result_;
  }

 private:
  using Key = std::pair<Element, Element>;

  void run_region(std::int64_t i0, std::int64_t j0) {
    std::map<std::vector<Element>, std::vector<Element>> items;  // in the order in which they are read
    for (std::int64_t i = i0; i < std::min(problem_.shape[0], i0 + region_[0]); ++i) {
      for (std::int64_t j = j0; j < std::min(problem_.shape[1], j0 + region_[1]); ++j) {
        const Element a = unit_at(i, problem_.source.chunk[0], problem_.source.unit[0]);
        const Element b = unit_at(j, problem_.source.chunk[1], problem_.source.unit[1]);
        items[swept_ == 1U ? std::vector{b, a} : std::vector{a, b}].emplace_back(i, j);
      }
    }
    if (mode_ == ReadMode::ranges) count_ranges(items);
    for (const auto& [key, elements] : items) {
      if (mode_ == ReadMode::units) {
        ++result_.requests;
        result_.read += unit_length(elements[0].first, problem_.source.chunk[0], problem_.source.unit[0]) *
                        unit_length(elements[0].second, problem_.source.chunk[1], problem_.source.unit[1]);
      }
      for (const auto& [i, j] : elements) {
        const Element chunk{chunk_of(i, problem_.target.chunk[0]), chunk_of(j, problem_.target.chunk[1])};
        if (lacks_.find(chunk) == lacks_.end()) lacks_[chunk] = size_of(chunk);
        result_.open = std::max(result_.open, lacks_.size());
        --lacks_[chunk];
      }
      std::erase_if(lacks_, [](const auto& entry) { return entry.second == 0; });
    }
  }

  // Elements that follow each other in their chunk are one request.
  void count_ranges(const std::map<std::vector<Element>, std::vector<Element>>& items) {
    std::map<Element, std::set<std::int64_t>> places;
    for (const auto& [key, elements] : items) {
      for (const auto& [i, j] : elements) {
        const Element chunk{chunk_of(i, problem_.source.chunk[0]), chunk_of(j, problem_.source.chunk[1])};
        const std::int64_t a = i % problem_.source.chunk[0];
        const std::int64_t b = j % problem_.source.chunk[1];
        const bool is_row_major = problem_.source.order[0] == 0;
        places[chunk].insert(is_row_major ? a * problem_.source.chunk[1] + b : b * problem_.source.chunk[0] + a);
        ++result_.read;
      }
    }
    for (const auto& [chunk, offsets] : places) {
      for (const std::int64_t offset : offsets) result_.requests += offsets.contains(offset - 1) ? 0 : 1;
    }
  }

  std::int64_t size_of(const Element& chunk) const {
    const auto along = [&](std::int64_t number, std::size_t dimension) {
      const std::int64_t extent = problem_.target.chunk[dimension];
      return std::min(extent, problem_.shape[dimension] - number * extent);
    };
    return along(chunk.first, 0) * along(chunk.second, 1);
  }

  const PassProblem& problem_;
  ReadMode mode_;
  std::optional<std::size_t> swept_;
  Shape region_;
  std::map<Element, std::int64_t> lacks_;  // of chunks that are open: elements
  Simulated result_;
};

struct Choice {
  ReadMode mode;
  std::optional<std::size_t> swept;
};
const std::vector<Choice> choices{
    {ReadMode::ranges, {}}, {ReadMode::units, {}}, {ReadMode::units, 0}, {ReadMode::units, 1}};

PassProblem small_problem(const Shape& shape, const Shape& source, const Shape& unit, const Shape& target) {
  return {shape, 1, {source, unit, {0, 1}, true, product(unit)}, {target, 0}};
}

template <typename Visit>
void for_each_pair(std::int64_t most_first, std::int64_t most_second, Visit visit) {
  for (std::int64_t i = 1; i <= most_first; ++i) {
    for (std::int64_t j = 1; j <= most_second; ++j) visit(Shape{i, j});
  }
}

// Every region shape of every small chunking, with whole chunks as units.
TEST(RechunkPlan, counts_what_a_pass_reads_and_holds) {
  const Shape shape{5, 4};
  RechunkOptions options{1 << 30};
  int count = 0;
  for_each_pair(5, 4, [&](const Shape& source) {
    for_each_pair(5, 4, [&](const Shape& target) {
      const PassProblem problem = small_problem(shape, source, source, target);
      for_each_pair(divide_up(5, target[0]), divide_up(4, target[1]), [&](const Shape& counts) {
        for (const Choice& choice : choices) {
          Shape chunks = counts;
          if (choice.swept) chunks[*choice.swept] = divide_up(shape[*choice.swept], target[*choice.swept]);
          const PassPlan plan = *evaluate_pass(problem, options, choice.mode, choice.swept, chunks);
          const Simulated simulated = Simulation(problem, choice.mode, choice.swept, plan.region).run();
          const std::int64_t written = divide_up(5, target[0]) * divide_up(4, target[1]);
          ASSERT_EQ(plan.read_bytes, simulated.read);
          ASSERT_EQ(plan.requests, simulated.requests + written);
          ASSERT_GE(plan.open_chunks, static_cast<std::int64_t>(simulated.open));
          ++count;
        }
      });
    });
  });
  EXPECT_GT(count, 1000);
}

// Units that are parts of chunks; chunks whose first dimension varies fastest.
TEST(RechunkPlan, counts_units_inside_chunks_and_other_orders) {
  const Shape shape{7, 6};
  RechunkOptions options{1 << 30};
  for_each_pair(4, 3, [&](const Shape& unit) {
    for_each_pair(3, 3, [&](const Shape& target) {
      PassProblem problem = small_problem(shape, {4, 3}, unit, target);
      problem.source.order = {1, 0};
      for (const Choice& choice : choices) {
        Shape chunks{2, 1};
        if (choice.swept) chunks[*choice.swept] = divide_up(shape[*choice.swept], target[*choice.swept]);
        const PassPlan plan = *evaluate_pass(problem, options, choice.mode, choice.swept, chunks);
        const Simulated simulated = Simulation(problem, choice.mode, choice.swept, plan.region).run();
        ASSERT_EQ(plan.read_bytes, simulated.read);
        ASSERT_EQ(plan.requests, simulated.requests + divide_up(7, target[0]) * divide_up(6, target[1]));
        ASSERT_GE(plan.open_chunks, static_cast<std::int64_t>(simulated.open));
      }
    });
  });
}

// The search finds the best of all shapes under every cap, and keeps the cap.
TEST(RechunkPlan, finds_the_cheapest_pass) {
  const Shape shape{6, 5};
  FileCosts costs;
  costs.request_seconds = 1e-9;
  int refused = 0;
  for (const bool has_ranges : {false, true}) {
    for_each_pair(6, 5, [&](const Shape& source) {
      for (const Shape& target : {Shape{1, 5}, Shape{6, 1}, Shape{2, 2}, Shape{4, 3}}) {
        PassProblem problem = small_problem(shape, source, source, target);
        problem.source.has_ranges = has_ranges;
        for (const std::int64_t cap : {5, 12, 20, 31, 60}) {
          const RechunkOptions options{cap + (has_ranges ? range_bytes : 0), 2, costs};
          std::optional<double> least;
          for_each_pair(divide_up(6, target[0]), divide_up(5, target[1]), [&](const Shape& counts) {
            for (const Choice& choice : choices) {
              if (choice.mode == ReadMode::ranges && !has_ranges) continue;
              Shape chunks = counts;
              if (choice.swept) chunks[*choice.swept] = divide_up(shape[*choice.swept], target[*choice.swept]);
              const auto plan = evaluate_pass(problem, options, choice.mode, choice.swept, chunks);
              if (plan && (!least || plan->seconds < *least)) least = plan->seconds;
            }
          });
          const auto found = plan_pass(problem, options);
          ASSERT_EQ(found.has_value(), least.has_value());
          refused += found ? 0 : 1;
          if (!found) continue;
          ASSERT_EQ(found->seconds, *least);
          ASSERT_LE(found->memory_bytes, options.max_bytes);
        }
      }
    });
  }
  EXPECT_GT(refused, 0);
}

// --- Whole plans.

PassProblem maps_to_series(bool has_ranges) {
  const Shape map{24, 181, 360};
  return {{8760, 181, 360}, 4, {map, map, {0, 1, 2}, has_ranges, 2 * product(map) * 4}, {{8760, 10, 10}, 0}};
}

TEST(RechunkPlan, reads_everything_once_where_ranges_can_be_read) {
  const RechunkPlan plan = plan_rechunk(maps_to_series(true), {256 << 20, 2});
  ASSERT_EQ(plan.passes.size(), 1U);
  EXPECT_EQ(plan.passes[0].mode, ReadMode::ranges);
  EXPECT_EQ(plan.passes[0].region, (Shape{8760, 20, 360}));  // runs of whole rows
  EXPECT_EQ(plan.read_bytes(), plan.bounds.least_read_bytes);
  EXPECT_EQ(plan.written_bytes(), plan.bounds.least_written_bytes);
  EXPECT_LE(plan.memory_bytes(), 256 << 20);
}

TEST(RechunkPlan, goes_through_an_intermediate_array_rather_than_read_many_times) {
  const RechunkPlan plan = plan_rechunk(maps_to_series(false), {256 << 20, 2});
  ASSERT_EQ(plan.passes.size(), 2U);
  EXPECT_EQ(plan.passes[0].read_bytes, plan.bounds.least_read_bytes);
  EXPECT_EQ(plan.passes[1].problem.source.chunk, plan.passes[0].problem.target.chunk);
  EXPECT_LE(plan.memory_bytes(), 256 << 20);
  EXPECT_EQ(plan_rechunk(maps_to_series(false), {std::int64_t{4} << 30, 2}).passes.size(), 1U);
  // Where no single pass fits.
  const RechunkPlan small = plan_rechunk(maps_to_series(false), {plan.bounds.least_memory_bytes, 2});
  EXPECT_GE(small.passes.size(), 2U);
}

// Chunks along a dimension do not end together: sweeping reads each once, with few of them in memory.
TEST(RechunkPlan, sweeps_along_a_dimension) {
  const PassProblem problem{{1 << 20, 64}, 8, {{700, 64}, {700, 64}, {0, 1}, false, 2 * 700 * 64 * 8}, {{1000, 64}, 0}};
  const RechunkPlan plan = plan_rechunk(problem, {4 << 20, 1});
  ASSERT_EQ(plan.passes.size(), 1U);
  EXPECT_EQ(plan.passes[0].swept, 0U);
  EXPECT_EQ(plan.passes[0].open_chunks, 2);
  EXPECT_EQ(plan.read_bytes(), plan.bounds.least_read_bytes);
}

TEST(RechunkPlan, refuses_a_cap_with_the_smallest_that_works) {
  const PassProblem problem = maps_to_series(false);
  EXPECT_EQ(diagnostic_of([&] {
              return plan_rechunk(problem, {1 << 20, 2}, 1000);
            }),
            "error: no plan needs less than 12,579,304 bytes\n"
            "hint: the smallest cap that works is 12579304; smaller chunks need less\n");
  const std::int64_t least = 12579304 - 1000;
  EXPECT_LE(plan_rechunk(problem, {least, 2}).memory_bytes(), least);
  EXPECT_THROW(plan_rechunk(problem, {least - 1, 2}), MemoryLimitError);
}

// A request costs as much as ten megabytes, so that blocks have to stay large on the way from columns to rows.
TEST(RechunkPlan, takes_as_many_passes_as_pay) {
  const Shape columns{1 << 17, 16};
  const PassProblem problem{{1 << 17, 1 << 17}, 4, {columns, columns, {0, 1}, true, 1 << 24}, {{16, 1 << 17}, 0}};
  RechunkOptions options{64 << 20, 1};
  options.costs.request_seconds = 0.01;
  const RechunkPlan plan = plan_rechunk(problem, options);
  ASSERT_GE(plan.passes.size(), 3U);
  for (std::size_t i = 0; i < plan.passes.size(); ++i) {
    EXPECT_LE(plan.passes[i].memory_bytes, options.max_bytes);
    if (i > 0) {
      EXPECT_EQ(plan.passes[i].problem.source.chunk, plan.passes[i - 1].problem.target.chunk);
    }
  }
  EXPECT_EQ(plan.passes.back().problem.target.chunk, problem.target.chunk);
  EXPECT_EQ(plan.seconds(), *std::min_element(plan.seconds_by_passes.begin(), plan.seconds_by_passes.end()));
  EXPECT_EQ(plan.seconds(), plan.seconds_by_passes[plan.passes.size() - 1]);
  // Where requests cost nothing, one pass reads everything once, and more cannot pay.
  options.costs.request_seconds = 0;
  const RechunkPlan one = plan_rechunk(problem, options);
  EXPECT_EQ(one.passes.size(), 1U);
  EXPECT_EQ(one.seconds_by_passes.size(), 1U);
  EXPECT_LT(one.seconds(), one.more_seconds);
}

// No plan of more passes undercuts what is told of them.
TEST(RechunkPlan, bounds_what_more_passes_take) {
  for (const bool has_ranges : {true, false}) {
    for (const std::int64_t cap : {20, 40, 80, 160}) {
      const RechunkPlan plan = plan_rechunk(maps_to_series(has_ranges), {cap << 20, 2});
      EXPECT_GE(plan.seconds_by_passes.size(), plan.passes.size());
      for (std::size_t i = 1; i < plan.seconds_by_passes.size(); ++i) {
        const double further = 4.0 * 8760 * 181 * 360 * (1 / 2e9 + 1 / 1e9);
        EXPECT_GE(plan.seconds_by_passes[i], further * static_cast<double>(i));
      }
      const double next = static_cast<double>(plan.seconds_by_passes.size());
      EXPECT_NEAR(plan.more_seconds - next * 4.0 * 8760 * 181 * 360 * (1 / 2e9 + 1 / 1e9),
                  4.0 * 8760 * 181 * 360 * (1 / 2e9 + (has_ranges ? 0 : 1 / 1e9 / 2)) + 8760.0 * 190 * 360 * 4 / 1e9,
                  1e-6);
    }
  }
}

// Processes fill whole regions, and those that meet a shard are one process's.
TEST(RechunkPlan, cuts_regions_for_processes) {
  EXPECT_EQ(share_extent(20, 0, 1000), 20);
  EXPECT_EQ(share_extent(20, 30, 1000), 60);
  EXPECT_EQ(share_extent(30, 10, 1000), 30);
  EXPECT_EQ(share_extent(1000, 30, 1000), 1000);
  PassProblem problem{{1 << 20, 64}, 8, {{700, 64}, {700, 64}, {0, 1}, false, 2 * 700 * 64 * 8}, {{1000, 64}, 0}};
  RechunkOptions options{4 << 20, 1};
  const double alone = plan_rechunk(problem, options).seconds();
  options.processes = 4;
  const RechunkPlan shared = plan_rechunk(problem, options);
  EXPECT_EQ(shared.passes[0].swept, 0U);
  EXPECT_GE(shared.passes[0].regions, 4);
  EXPECT_LT(shared.seconds(), 0.27 * alone);
  problem.target.shard = {1 << 20, 64};  // one shard, one process
  EXPECT_GE(plan_pass(problem, options)->seconds, 0.99 * alone);
}

// Every plan for every cap keeps it, and the smallest cap is the one that is told.
TEST(RechunkPlan, keeps_every_cap_or_tells_the_smallest) {
  const PassProblem problem{
      {300, 200, 100}, 8, {{30, 200, 10}, {30, 200, 10}, {0, 1, 2}, false, 1000000}, {{100, 10, 100}, 70000}};
  const std::int64_t least = plan_rechunk(problem, {1 << 30, 3}).bounds.least_memory_bytes;
  for (std::int64_t cap = 100000; cap < 100000000; cap = cap * 5 / 4) {
    try {
      EXPECT_LE(plan_rechunk(problem, {cap, 3}).memory_bytes(), cap);
      EXPECT_GE(cap, least);
    } catch (const MemoryLimitError& error) {
      EXPECT_LT(cap, least);
    }
  }
  EXPECT_NO_THROW(plan_rechunk(problem, {least, 3}));
  EXPECT_THROW(plan_rechunk(problem, {least - 1, 3}), MemoryLimitError);
}

}  // namespace
}  // namespace retile::files
