// Times the threads engine against a floor: every device's target tile copied once by memcpy, by as many threads.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/comparison.h"
#include "bench/problem_times.h"
#include "bench/program.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/threads/threads.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "retile/version.h"

namespace retile::bench {
namespace {

struct Arguments {
  ComparisonArguments comparison{.scale = 8};
  int threads = 0;
};

constexpr std::int64_t element_size = 4;  // bytes
constexpr PlannerKind planners[] = {PlannerKind::direct, PlannerKind::wide, PlannerKind::paper};

std::vector<std::byte*> starts_of(Tiles& tiles) {
  std::vector<std::byte*> starts;
  for (Tile& tile : tiles) starts.push_back(tile.bytes.data());
  return starts;
}

Tiles made_tiles(const MadeArray& array, const Placement& placement) {
  Tiles tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    tiles.push_back(make_tile(array, placement.box(device)));
  }
  return tiles;
}

// All bytes of the tiles, in equal shares for the workers: the fewest and longest calls of memcpy.
class MemcpyFloor {
 public:
  MemcpyFloor(WorkerPool& pool, std::size_t tile_bytes, std::size_t tiles)
      : pool_(pool), tile_bytes_(tile_bytes), bytes_(tile_bytes * tiles) {}

  double seconds(const std::vector<std::byte*>& from, const std::vector<std::byte*>& to) const {
    const auto workers = static_cast<std::size_t>(pool_.workers());
    return seconds_of([&] {
      pool_.for_each(workers, [&](std::size_t worker) {
        copy_share(from, to, bytes_ * worker / workers, bytes_ * (worker + 1) / workers);
      });
      return 0;
    });
  }

 private:
  void copy_share(const std::vector<std::byte*>& from, const std::vector<std::byte*>& to, std::size_t begin,
                  std::size_t end) const {
    while (begin < end) {
      const std::size_t tile = begin / tile_bytes_;
      const std::size_t offset = begin % tile_bytes_;
      const std::size_t length = std::min(end - begin, tile_bytes_ - offset);
      std::memcpy(to[tile] + offset, from[tile] + offset, length);
      begin += length;
    }
  }

  WorkerPool& pool_;
  std::size_t tile_bytes_;
  std::size_t bytes_;
};

// Medians in seconds.
struct Times {
  double floor = 0;
  std::vector<double> planners;
  double uneven = 0;  // of the neighbour that does not divide, planned by itself
};

// The problem for an array that is one element shorter wherever it is cut.
Problem uneven_neighbour(const Problem& problem) {
  MeshLayout source = *problem.source().cuts();
  MeshLayout target = *problem.target().cuts();
  for (std::size_t i = 0; i < source.view.size(); ++i) {
    Factor& from = source.view[i].front();
    Factor& to = target.view[i].front();
    if (from.axes.empty() && to.axes.empty()) continue;
    from.size = to.size = std::max<std::int64_t>(1, from.size - 1);
  }
  return {problem.id(), Layout(std::move(source)), Layout(std::move(target)), problem.element_type()};
}

// The tiles of a problem and runs between them, each checked before it is timed.
class Runs {
 public:
  Runs(const Problem& problem, Engine& engine)
      : problem_(problem),
        engine_(engine),
        array_{problem.source().global_shape(), element_size, 1},
        sources_(made_tiles(array_, problem.source().placement())),
        expected_(made_tiles(array_, problem.target().placement())),
        targets_(expected_) {}

  void add(PlannerKind planner) {
    PlanOptions options;
    options.planner = planner;
    const Plan plan = make_plan(problem_, options);
    runs_.push_back(engine_.prepare(plan.movement, element_size));
    for (Tile& tile : targets_) std::fill(tile.bytes.begin(), tile.bytes.end(), std::byte{0});
    seconds(runs_.size() - 1);
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const auto difference = find_difference(array_, targets_[i], static_cast<Device>(i), expected_[i].box);
      if (difference) throw RuntimeError(fmt::format("{}, planner {}: {}", plan.id, plan.planner, *difference));
    }
  }

  double seconds(std::size_t run) {
    const std::vector<std::byte*> from = starts_of(sources_);
    const std::vector<const std::byte*> const_from(from.begin(), from.end());
    const std::vector<std::byte*> to = starts_of(targets_);
    return seconds_of([&] { return runs_[run]->execute(const_from, to); });
  }

  Tiles& expected() { return expected_; }
  Tiles& targets() { return targets_; }

 private:
  const Problem& problem_;
  Engine& engine_;
  const MadeArray array_;
  Tiles sources_;
  Tiles expected_;
  Tiles targets_;
  std::vector<std::unique_ptr<PreparedRun>> runs_;
};

Times time_problem(const Problem& problem, Engine& engine, WorkerPool& pool, int repetitions) {
  Runs even(problem, engine);
  for (const PlannerKind planner : planners) even.add(planner);
  const Problem neighbour = uneven_neighbour(problem);
  Runs uneven(neighbour, engine);
  uneven.add(PlannerKind::wide);

  const MemcpyFloor floor(pool, even.targets()[0].bytes.size(), even.targets().size());
  std::vector<double> floor_times;
  std::vector<double> uneven_times;
  std::vector<std::vector<double>> run_times(std::size(planners));
  for (int i = 0; i < repetitions; ++i) {
    floor_times.push_back(floor.seconds(starts_of(even.expected()), starts_of(even.targets())));
    for (std::size_t run = 0; run < run_times.size(); ++run) run_times[run].push_back(even.seconds(run));
    uneven_times.push_back(uneven.seconds(0));
  }
  Times times{median(floor_times), {}, median(uneven_times)};
  for (std::vector<double>& seconds : run_times) times.planners.push_back(median(std::move(seconds)));
  return times;
}

// Times over the floor's.
struct Ratios {
  double direct;
  double wide;
  double better;  // of the two
  double paper;
  double uneven;  // over the even neighbour's
};

Ratios ratios_of(const Times& times) {
  const double direct = times.planners[0] / times.floor;
  const double wide = times.planners[1] / times.floor;
  return {direct, wide, std::min(direct, wide), times.planners[2] / times.floor, times.uneven / times.planners[1]};
}

std::string summary(const char* name, const std::vector<Ratios>& all, double Ratios::*ratio) {
  RatioSummary summary;
  for (const Ratios& ratios : all) summary.add(ratios.*ratio);
  return fmt::format("{:8} {}\n", name, summary.text());
}

std::string row(const Problem& problem, const Times& times, const Ratios& ratios) {
  const std::int64_t bytes = problem.target().local_size() * problem.device_count() * element_size;
  return fmt::format("{:12} {:9.1f} {:9.2f}   {:23.2f} {:6.2f} {:6.2f} {:6.2f} {:6.2f}   {} to {}\n", problem.id(),
                     static_cast<double>(bytes) / 1e6, 1e3 * times.floor, ratios.direct, ratios.wide, ratios.better,
                     ratios.paper, ratios.uneven, to_string(problem.source()), to_string(problem.target()));
}

void run(const Arguments& arguments) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = arguments.threads > 0 ? arguments.threads : cores;
  const std::unique_ptr<Engine> engine = make_threads_engine({threads, no_memory_limit});
  WorkerPool pool(threads);
  const std::vector<Problem> problems = moving_problems(arguments.comparison);
  fmt::print(
      "retile {}; {}, {} threads; the {} of the first {} problems in which a device receives something, their\n"
      "arrays {} times smaller; medians of {} repetitions\n\n",
      RETILE_VERSION, processor_name(), threads, problems.size(), arguments.comparison.count,
      arguments.comparison.scale, arguments.comparison.repetitions);
  fmt::print("{:12} {:>9} {:>9}   times the floor: {:>6} {:>6} {:>6} {:>6} {:>6}\n", "problem", "target MB", "floor ms",
             "direct", "wide", "better", "paper", "uneven");
  std::vector<Ratios> all;
  for (const Problem& problem : problems) {
    const Times times = time_problem(problem, *engine, pool, arguments.comparison.repetitions);
    all.push_back(ratios_of(times));
    fmt::print("{}", row(problem, times, all.back()));
    std::fflush(stdout);
  }
  fmt::print("\n{}{}{}{}", summary("direct", all, &Ratios::direct), summary("wide", all, &Ratios::wide),
             summary("better", all, &Ratios::better), summary("paper", all, &Ratios::paper));
  fmt::print("uneven is a neighbour that does not divide, in multiples of wide:\n{}",
             summary("uneven", all, &Ratios::uneven));
}

void declare(CLI::App& app, Arguments& arguments) {
  declare_comparison(app, arguments.comparison);
  app.add_option("--threads", arguments.threads, "threads; one for each core unless given")->check(CLI::Range(1, 4096));
}

constexpr Program<Arguments> threads_benchmark{
    "threads_benchmark", "Times the threads engine, in multiples of the time that memcpy takes for the target tiles.",
    declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_program(retile::bench::threads_benchmark, argument_count, arguments);
}
