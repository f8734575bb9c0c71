// Times the CUDA engine against a floor: the same bytes copied on the same GPU by cudaMemcpyAsync, tile by tile.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/problem_times.h"
#include "bench/program.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/cuda/cuda_engine.h"
#include "retile/engines/threads/threads.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "retile/version.h"

namespace retile::bench {
namespace {

struct Arguments {
  ComparisonArguments comparison{.count = 60, .repetitions = 9};
  int gpu = 0;
};

constexpr std::int64_t element_size = 4;  // bytes

void require(cudaError_t error) {
  if (error != cudaSuccess) throw RuntimeError(cudaGetErrorString(error));
}

// The tiles of a placement in memory of the GPU, as the made-up array has them.
std::vector<Buffer> tiles_on_gpu(Engine& engine, Engine& host, const MadeArray& array, const Placement& placement) {
  std::vector<Buffer> tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    tiles.push_back(engine.allocate(static_cast<std::size_t>(placement.size(device) * element_size)));
  }
  host.for_each(tiles.size(), [&](std::size_t i) {
    const Tile tile = make_tile(array, placement.box(static_cast<Device>(i)));
    require(cudaMemcpy(tiles[i].data(), tile.bytes.data(), tile.bytes.size(), cudaMemcpyHostToDevice));
  });
  return tiles;
}

void require_moved(Engine& host, const MadeArray& array, const Placement& placement, const std::vector<Buffer>& tiles) {
  host.for_each(tiles.size(), [&](std::size_t i) {
    const auto device = static_cast<Device>(i);
    Tile tile{placement.box(device), Buffer(tiles[i].size())};
    require(cudaMemcpy(tile.bytes.data(), tiles[i].data(), tiles[i].size(), cudaMemcpyDeviceToHost));
    if (const auto difference = find_difference(array, tile, device, tile.box)) throw RuntimeError(*difference);
  });
}

struct Times {
  double floor = 0;  // medians in seconds
  double again = 0;  // a second floor: how noisy the machine is
  double run = 0;
};

Times time_problem(const Problem& problem, Engine& engine, Engine& host, int repetitions) {
  PlanOptions options;
  options.planner = PlannerKind::direct;
  const Plan plan = make_plan(problem, options);
  const MadeArray array{problem.source().global_shape(), element_size, 1};
  const Placement source = problem.source().placement();
  const Placement target = problem.target().placement();
  std::vector<Buffer> sources = tiles_on_gpu(engine, host, array, source);
  std::vector<Buffer> targets;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto bytes = static_cast<std::size_t>(target.size(static_cast<Device>(i)) * element_size);
    targets.push_back(engine.allocate(bytes));
    require(cudaMemset(targets.back().data(), 0, bytes));
    from.push_back(sources[i].data());
    to.push_back(targets[i].data());
  }
  const std::unique_ptr<PreparedRun> run = engine.prepare(plan.movement, element_size);
  run->execute(from, to);
  require_moved(host, array, target, targets);

  std::vector<Buffer> copies;
  for (const Buffer& tile : targets) copies.push_back(engine.allocate(tile.size()));
  const auto floor = [&] {
    return seconds_of([&] {
      for (std::size_t i = 0; i < copies.size(); ++i) {
        require(cudaMemcpyAsync(copies[i].data(), targets[i].data(), copies[i].size(), cudaMemcpyDeviceToDevice));
      }
      require(cudaDeviceSynchronize());
      return 0;
    });
  };
  floor();
  std::vector<double> floors;
  std::vector<double> again;
  std::vector<double> runs;
  for (int i = 0; i < repetitions; ++i) {
    floors.push_back(floor());
    runs.push_back(seconds_of([&] { return run->execute(from, to); }));
    again.push_back(floor());
  }
  return {median(floors), median(again), median(runs)};
}

void run(const Arguments& arguments) {
  const std::unique_ptr<Engine> engine = cuda::make_cuda_engine({arguments.gpu, no_memory_limit});
  const std::unique_ptr<Engine> host = make_threads_engine();
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, arguments.gpu));
  const std::vector<Problem> problems = moving_problems(arguments.comparison);
  fmt::print("retile {}; {}; {} problems, planner direct, {} times smaller; medians of {} repetitions\n\n",
             RETILE_VERSION, properties.name, problems.size(), arguments.comparison.scale,
             arguments.comparison.repetitions);
  fmt::print("{:12} {:>9} {:>9} {:>16} {:>6}\n", "problem", "MB", "copy ms", "share of its speed", "again");
  RatioSummary speeds;
  RatioSummary noise;
  for (const Problem& problem : problems) {
    const Times times = time_problem(problem, *engine, *host, arguments.comparison.repetitions);
    const std::int64_t bytes = problem.target().local_size() * problem.device_count() * element_size;
    speeds.add(times.floor / times.run);
    noise.add(times.floor / times.again);
    fmt::print("{:12} {:9.1f} {:9.3f} {:16.2f} {:6.2f}   {} to {}\n", problem.id(), static_cast<double>(bytes) / 1e6,
               1e3 * times.floor, times.floor / times.run, times.floor / times.again, to_string(problem.source()),
               to_string(problem.target()));
    std::fflush(stdout);
  }
  fmt::print("\nours   {}\nnoise  {}\n", speeds.text(), noise.text());
}

void declare(CLI::App& app, Arguments& arguments) {
  declare_comparison(app, arguments.comparison);
  app.add_option("--gpu", arguments.gpu, "number of the GPU")->capture_default_str();
}

constexpr Program<Arguments> cuda_benchmark{
    "cuda_benchmark", "Times the CUDA engine, as a share of the speed of cudaMemcpyAsync of the target tiles.", declare,
    run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_program(retile::bench::cuda_benchmark, argument_count, arguments);
}
