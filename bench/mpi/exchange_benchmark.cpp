// Times small exchanges against MPI_Alltoall, and pencils against what programs do by hand: calls as an inner loop
// makes them, one after the other. Under mpirun.
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/mpi/alltoallw.h"
#include "bench/mpi/contest.h"
#ifdef RETILE_HAS_FFTW
#include "bench/mpi/fftw_pencils.h"
#endif
#include "bench/mpi/mpi_program.h"
#include "bench/mpi/packed_alltoallv.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/backend.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/mpi.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

namespace retile::bench {
namespace {

// This rank's tiles, and ways to move them.
class Exchange {
 public:
  Exchange(const Problem& problem, Engine& engine, const mpi::Communicator& world)
      : world_(world),
        array_{problem.source().global_shape(), bytes_of(problem.element_type()), 1},
        own_(make_tile(array_, problem.source().placement().box(world.rank()))),
        shared_(make_tile(array_, own_.box, engine.allocate(own_.bytes.size()))),
        expected_(make_tile(array_, problem.target().placement().box(world.rank()))),
        target_(expected_) {
    const Movement movement = make_plan(problem).movement;
    const auto add_run = [&](const char* name, const Tile& source) {
      const std::shared_ptr<PreparedRun> run = engine.prepare(movement, array_.element_size);
      add(name, [this, run, &source] {
        const std::byte* from = source.bytes.data();
        std::byte* to = target_.bytes.data();
        run->run({&from, 1}, {&to, 1});
      });
    };
    add_run("ours", own_);
    add_run("ours, the engine's memory", shared_);
  }

  const std::byte* source() const { return own_.bytes.data(); }
  std::byte* target() { return target_.bytes.data(); }
  void add(std::string name, std::function<void()> call) {
    contenders_.push_back({std::move(name), std::move(call)});
    require_right(contenders_.back());
  }

  const std::vector<Contender>& contenders() const { return contenders_; }
  ContestTimes times(const ContestArguments& arguments) const { return time_in_turn(contenders_, arguments, world_); }

 private:
  void require_right(const Contender& contender) {
    std::memset(target_.bytes.data(), 0, target_.bytes.size());
    contender.call();
    if (target_.bytes != expected_.bytes) throw RuntimeError("the result is wrong: " + contender.name);
  }

  const mpi::Communicator& world_;
  const MadeArray array_;
  const Tile own_;
  const Tile shared_;
  const Tile expected_;
  Tile target_;
  std::vector<Contender> contenders_;  // ours in the caller's own memory and in the engine's, then others
};

// Every rank has a row, and gets a column: so many bytes from each other one.
Problem rows_to_columns(int ranks, std::int64_t bytes) {
  const Mesh mesh({{"a", ranks}});
  const Shape shape{ranks, ranks * bytes};
  return {"", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
          DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}}), ElementType::i8};
}

// 50 x 37 x 61 complex numbers in pencils along the first dimension, wanted along the second.
Problem pencils(int ranks) {
  int columns = 1;
  for (int i = 1; i * i <= ranks; ++i) {
    if (ranks % i == 0) columns = i;
  }
  const int rows = ranks / columns;  // which exchange pencils
  const auto tile = [](int size, int parts) { return (size + parts - 1) / parts; };
  return parse_problem({"mesh", fmt::format("p={},q={}", rows, columns)},
                       {"source", fmt::format("[50, {}{{p}}37, {}{{q}}61]", tile(37, rows), tile(61, columns))},
                       {"target", fmt::format("[{}{{p}}50, 37, {}{{q}}61]", tile(50, rows), tile(61, columns))},
                       ElementType::c128);
}

// Microseconds of preparing a run with the engine that the communicator keeps, the median.
double preparing_time(const mpi::Communicator& world, int repetitions) {
  const Problem problem = rows_to_columns(world.size(), 512);
  std::vector<double> times;
  for (int i = 0; i <= repetitions; ++i) {
    world.barrier();
    const std::int64_t start = now();
    const auto prepared = mpi::prepare<std::int8_t>(problem, world.get());
    if (i > 0) times.push_back(static_cast<double>(now() - start) * 1e-3);  // the first one makes the engine
  }
  return median(std::move(times));
}

void time_small_exchange(std::int64_t bytes, Engine& engine, const ContestArguments& arguments,
                         const mpi::Communicator& world) {
  Exchange exchange(rows_to_columns(world.size(), bytes), engine, world);
  exchange.add("MPI_Alltoall", [&] {
    mpi::check(MPI_Alltoall(exchange.source(), static_cast<int>(bytes), MPI_BYTE, exchange.target(),
                            static_cast<int>(bytes), MPI_BYTE, world.get()),
               "MPI_Alltoall");
  });
  const ContestTimes times = exchange.times(arguments);
  if (world.rank() == 0)
    fmt::print("{}", contest_text(fmt::format("{} bytes a pair", bytes), exchange.contenders(), times));
}

void time_pencils(Engine& engine, const ContestArguments& arguments, const mpi::Communicator& world) {
  const Problem problem = pencils(world.size());
  Exchange exchange(problem, engine, world);
  const Alltoallw alltoallw(problem, world.get(), OwnPart::copied);
  exchange.add("MPI_Alltoallw", [&] { alltoallw.run(exchange.source(), exchange.target()); });
  PackedAlltoallv packed(problem, world);
  exchange.add("packing, MPI_Alltoallv, unpacking", [&] { packed.run(exchange.source(), exchange.target()); });
#ifdef RETILE_HAS_FFTW
  FftwPencils fftw(problem, world);
  exchange.add("FFTW-MPI's transpose", [&] { fftw.run(exchange.source(), exchange.target()); });
#endif
  const ContestTimes times = exchange.times(arguments);
  if (world.rank() != 0) return;
  const std::string title = fmt::format("pencils, {} to {}", to_string(problem.source()), to_string(problem.target()));
  fmt::print("{}", contest_text(title, exchange.contenders(), times));
#ifndef RETILE_HAS_FFTW
  fmt::print("  FFTW-MPI is left out: it is not installed\n");
#endif
}

// Only the first rank prints.
void run(const ContestArguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  const std::unique_ptr<Engine> engine = mpi::make_mpi_engine(world.get());
  if (world.rank() == 0) {
    fmt::print("{}, {} ranks; medians of {} times {} calls in the caller's own memory; others over ours\n\n",
               processor_name(), world.size(), arguments.repetitions, arguments.calls);
  }
  for (const std::int64_t bytes : {8, 64, 512, 4096}) time_small_exchange(bytes, *engine, arguments, world);
  time_pencils(*engine, arguments, world);
  const double preparing = preparing_time(world, arguments.repetitions);
  if (world.rank() == 0) fmt::print("\npreparing another run takes {:.0f} microseconds\n", preparing);
}

constexpr Program<ContestArguments> exchange_benchmark{
    "exchange_benchmark", "Times small exchanges against MPI_Alltoall, and pencils against what programs do by hand.",
    declare_contest, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::exchange_benchmark, argument_count, arguments);
}
