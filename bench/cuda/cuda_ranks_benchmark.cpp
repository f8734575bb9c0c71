// Times the CUDA engine on ranks that share a GPU. Under mpirun, with as many ranks as the problems have devices.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "bench/comparison.h"
#include "bench/mpi/mpi_program.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/backend.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda_mpi/cuda_mpi_engine.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

namespace retile::bench {
namespace {

constexpr std::int64_t element_size = 4;  // bytes

// From the first rank's start to the last one's end.
double span_of(const mpi::Communicator& world, const std::function<void()>& action) {
  world.barrier();
  std::int64_t times[] = {0, -now()};
  action();
  times[0] = now();
  world.most(times);
  return static_cast<double>(times[0] + times[1]) * 1e-9;
}

// The tile of this rank in memory of its GPU.
struct GpuTile {
  GpuTile(Engine& engine, const Placement& placement, Device device)
      : box(placement.box(device)), bytes(engine.allocate(static_cast<std::size_t>(volume(box) * element_size))) {}

  Box box;
  Buffer bytes;
};

// The median in seconds, after every element was compared.
double time_problem(const Problem& problem, const mpi::Communicator& world, Engine& engine, int repetitions) {
  PlanOptions options;
  options.planner = PlannerKind::direct;
  const Plan plan = make_plan(problem, options);
  const Device device = world.rank();
  const MadeArray array{problem.source().global_shape(), element_size, 1};
  GpuTile source(engine, problem.source().placement(), device);
  GpuTile target(engine, problem.target().placement(), device);
  const Tile made = make_tile(array, source.box);
  engine.store({made.bytes.begin(), made.bytes.end()}, source.bytes.data());
  engine.clear({target.bytes.begin(), target.bytes.end()});

  const std::unique_ptr<PreparedRun> run = engine.prepare(plan.movement, element_size);
  const auto move = [&] {
    const std::byte* const from = source.bytes.data();
    std::byte* const to = target.bytes.data();
    run->run({&from, 1}, {&to, 1});
  };
  move();
  Tile moved{target.box, Buffer(target.bytes.size())};
  engine.load(target.bytes.data(), {moved.bytes.begin(), moved.bytes.end()});
  const auto difference = world.first_text(find_difference(array, moved, device, moved.box));
  if (difference) throw RuntimeError(fmt::format("{}: {}", problem.id(), *difference));
  std::vector<double> spans;
  for (int i = 0; i < repetitions; ++i) spans.push_back(span_of(world, move));
  return median(spans);
}

// Only the first rank prints.
void run(const ComparisonArguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  const std::unique_ptr<Engine> engine = cuda::make_cuda_engine(world.get());
  const bool speaks = world.rank() == 0;
  if (speaks) {
    cudaDeviceProp properties{};
    cuda::require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    fmt::print("{}, {} ranks; planner direct, {} times smaller; medians of {} repetitions\n\n", properties.name,
               world.size(), arguments.scale, arguments.repetitions);
    fmt::print("{:12} {:>9} {:>9} {:>22}\n", "problem", "MB", "ms", "TB/s read and written");
  }
  RatioSummary rates;
  for (const Problem& problem : moving_problems(arguments)) {
    if (problem.device_count() != world.size()) {
      throw RuntimeError(fmt::format("{} has {} devices: start as many ranks", problem.id(), problem.device_count()));
    }
    const double seconds = time_problem(problem, world, *engine, arguments.repetitions);
    if (!speaks) continue;
    const auto bytes = static_cast<double>(problem.target().local_size() * world.size() * element_size);
    const double rate = 2e-12 * bytes / seconds;
    rates.add(rate);
    fmt::print("{:12} {:9.1f} {:9.3f} {:22.2f}   {} to {}\n", problem.id(), bytes / 1e6, 1e3 * seconds, rate,
               to_string(problem.source()), to_string(problem.target()));
    std::fflush(stdout);
  }
  if (speaks) fmt::print("\nTB/s  {}\n", rates.text());
}

void declare(CLI::App& app, ComparisonArguments& arguments) {
  arguments.count = 20;
  declare_comparison(app, arguments);
}

constexpr Program<ComparisonArguments> cuda_ranks_benchmark{
    "cuda_ranks_benchmark", "Times the CUDA engine on MPI ranks, in bytes read and written.", declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::cuda_ranks_benchmark, argument_count, arguments);
}
