// Times small exchanges against MPI_Alltoall, and pencils against one MPI_Alltoallw: calls as an inner loop makes them,
// one after the other. Under mpirun.
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
#include "bench/mpi/mpi_program.h"
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

struct ExchangeArguments {
  int repetitions = 21;
  int calls = 200;
};

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
    for (const Tile* source : {&shared_, &own_}) {
      const std::shared_ptr<PreparedRun> run = engine.prepare(movement, array_.element_size);
      add([this, run, source] {
        const std::byte* from = source->bytes.data();
        std::byte* to = target_.bytes.data();
        run->run({&from, 1}, {&to, 1});
      });
    }
  }

  const std::byte* source() const { return own_.bytes.data(); }
  std::byte* target() { return target_.bytes.data(); }
  void add(std::function<void()> call) { calls_.push_back(std::move(call)); }

  // Microseconds of one call, medians, in turn so that all have the same luck.
  std::vector<double> times(const ExchangeArguments& arguments) {
    for (const std::function<void()>& call : calls_) require_right(call);
    std::vector<std::vector<double>> spans(calls_.size());
    for (int i = 0; i < arguments.repetitions; ++i) {
      for (std::size_t j = 0; j < calls_.size(); ++j) {
        world_.barrier();
        std::int64_t times[] = {0, -now()};
        for (int k = 0; k < arguments.calls; ++k) calls_[j]();
        times[0] = now();
        world_.most(times);
        spans[j].push_back(static_cast<double>(times[0] + times[1]) * 1e-3 / arguments.calls);
      }
    }
    std::vector<double> medians;
    for (std::vector<double>& values : spans) medians.push_back(median(std::move(values)));
    return medians;
  }

 private:
  void require_right(const std::function<void()>& call) {
    std::memset(target_.bytes.data(), 0, target_.bytes.size());
    call();
    if (target_.bytes != expected_.bytes) throw RuntimeError("a contender's result is wrong");
  }

  const mpi::Communicator& world_;
  const MadeArray array_;
  const Tile own_;
  const Tile shared_;
  const Tile expected_;
  Tile target_;
  std::vector<std::function<void()>> calls_;  // ours in the engine's memory and in our own, then MPI's
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
  int rows = 1;
  for (int i = 1; i * i <= ranks; ++i) {
    if (ranks % i == 0) rows = i;
  }
  const int columns = ranks / rows;
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

// Only the first rank prints.
void run(const ExchangeArguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  const std::unique_ptr<Engine> engine = mpi::make_mpi_engine(world.get());
  const auto print = [&](const std::string& what, const std::vector<double>& times) {
    if (world.rank() != 0) return;
    fmt::print("{:>16} {:10.2f} {:10.2f} {:10.2f} {:8.2f} {:8.2f}\n", what, times[2], times[0], times[1],
               times[0] / times[2], times[1] / times[2]);
    std::fflush(stdout);
  };
  if (world.rank() == 0) {
    fmt::print("{}, {} ranks; microseconds of a call, medians of {} times {} calls; ours over MPI's\n\n",
               processor_name(), world.size(), arguments.repetitions, arguments.calls);
    fmt::print("{:>16} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "bytes a pair", "MPI", "engine's", "own", "engine's",
               "own");
  }
  for (const std::int64_t bytes : {8, 64, 512, 4096}) {
    Exchange exchange(rows_to_columns(world.size(), bytes), *engine, world);
    exchange.add([&] {
      mpi::check(MPI_Alltoall(exchange.source(), static_cast<int>(bytes), MPI_BYTE, exchange.target(),
                              static_cast<int>(bytes), MPI_BYTE, world.get()),
                 "MPI_Alltoall");
    });
    print(std::to_string(bytes), exchange.times(arguments));
  }
  const Problem problem = pencils(world.size());
  Exchange exchange(problem, *engine, world);
  const Alltoallw alltoallw(problem, world.get(), OwnPart::copied);
  exchange.add([&] { alltoallw.run(exchange.source(), exchange.target()); });
  print("pencils", exchange.times(arguments));
  const double preparing = preparing_time(world, arguments.repetitions);
  if (world.rank() == 0) fmt::print("\npreparing another run takes {:.0f} microseconds\n", preparing);
}

void declare(CLI::App& app, ExchangeArguments& arguments) {
  app.add_option("--repeat", arguments.repetitions, "Times that calls are measured");
  app.add_option("--calls", arguments.calls, "Calls that are measured at once");
}

constexpr Program<ExchangeArguments> exchange_benchmark{
    "exchange_benchmark", "Times small exchanges against MPI_Alltoall, and pencils against MPI_Alltoallw.", declare,
    run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::exchange_benchmark, argument_count, arguments);
}
