// Times the CUDA engine on ranks that share a GPU: tiles read where they lie (CUDA IPC), and packed, sent in groups and
// unpacked (NCCL). Under mpirun, with as many ranks as the problems have devices.
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

struct Arguments {
  ComparisonArguments comparison{.count = 20};
  std::int64_t staging = std::int64_t{16} << 20U;  // bytes
};

// Null where NCCL does not take these ranks.
std::unique_ptr<Engine> make_nccl_engine(const mpi::Communicator& world, const Arguments& arguments) {
  cuda::CudaRankOptions options;
  options.transport = cuda::CudaTransport::nccl;
  options.staging_bytes = arguments.staging;
  try {
    return cuda::make_cuda_engine(world.get(), options);
  } catch (const RuntimeError& error) {
    if (world.rank() == 0) fmt::print("without NCCL: {}\n", error.what());
    return nullptr;
  }
}

// Only the first rank prints.
void run(const Arguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  cuda::CudaRankOptions options;
  options.transport = cuda::CudaTransport::ipc;
  const std::unique_ptr<Engine> engine = cuda::make_cuda_engine(world.get(), options);
  const std::unique_ptr<Engine> nccl = make_nccl_engine(world, arguments);
  const bool speaks = world.rank() == 0;
  if (speaks) {
    cudaDeviceProp properties{};
    cuda::require(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    fmt::print("{}, {} ranks; planner direct, {} times smaller; medians of {} repetitions; {} bytes of staging\n\n",
               properties.name, world.size(), arguments.comparison.scale, arguments.comparison.repetitions,
               arguments.staging);
    fmt::print("{:12} {:>9} {:>9} {:>6} {:>9} {:>6} {:>6}\n", "problem", "MB", "IPC ms", "TB/s", "NCCL ms", "TB/s",
               "ratio");
  }
  RatioSummary rates;
  RatioSummary nccl_rates;
  RatioSummary ratios;
  for (const Problem& problem : moving_problems(arguments.comparison)) {
    if (problem.device_count() != world.size()) {
      throw RuntimeError(fmt::format("{} has {} devices: start as many ranks", problem.id(), problem.device_count()));
    }
    const int repetitions = arguments.comparison.repetitions;
    const double seconds = time_problem(problem, world, *engine, repetitions);
    const double sent = nccl ? time_problem(problem, world, *nccl, repetitions) : seconds;
    if (!speaks) continue;
    const auto bytes = static_cast<double>(problem.target().local_size() * world.size() * element_size);
    rates.add(2e-12 * bytes / seconds);
    nccl_rates.add(2e-12 * bytes / sent);
    ratios.add(sent / seconds);
    fmt::print("{:12} {:9.1f} {:9.3f} {:6.2f}", problem.id(), bytes / 1e6, 1e3 * seconds, 2e-12 * bytes / seconds);
    if (nccl) fmt::print(" {:9.3f} {:6.2f} {:6.2f}", 1e3 * sent, 2e-12 * bytes / sent, sent / seconds);
    fmt::print("   {} to {}\n", to_string(problem.source()), to_string(problem.target()));
    std::fflush(stdout);
  }
  if (!speaks) return;
  fmt::print("\nTB/s read and written by IPC   {}\n", rates.text());
  if (nccl) {
    fmt::print("TB/s read and written by NCCL  {}\nNCCL over IPC                  {}\n", nccl_rates.text(),
               ratios.text());
  }
}

void declare(CLI::App& app, Arguments& arguments) {
  declare_comparison(app, arguments.comparison);
  app.add_option("--staging", arguments.staging, "bytes of a rank for messages of NCCL")->capture_default_str();
}

constexpr Program<Arguments> cuda_ranks_benchmark{
    "cuda_ranks_benchmark", "Times the CUDA engine on MPI ranks, in bytes read and written, by CUDA IPC and by NCCL.",
    declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::cuda_ranks_benchmark, argument_count, arguments);
}
