// Times redistributions of memory that is the caller's own against one MPI_Alltoallw, with the engine set in several
// ways: how long messages between ranks of a host are, how many of them share the staging, and whether ranks read each
// other's memory through the system. Its last lines say which setting is best. Under mpirun.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/mpi/alltoallw.h"
#include "bench/mpi/contest.h"
#include "bench/mpi/mpi_program.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

namespace retile::bench {
namespace {

struct Setting {
  std::string name;
  mpi::MpiOptions options;
};

std::vector<Setting> settings() {
  std::vector<Setting> all{{"as it is", {}}};
  const auto add = [&](std::string name, mpi::Reading reading, mpi::NearMessages near) {
    mpi::MpiOptions options;
    options.reading = reading;
    options.near = near;
    all.push_back({std::move(name), options});
  };
  add("read", mpi::Reading::always, {});
  for (const std::int64_t kibibytes : {16, 32, 64, 128, 256}) {
    add(fmt::format("{}K", kibibytes), mpi::Reading::never, {kibibytes << 10U, 8});
  }
  for (const std::int64_t lanes : {1, 2, 4}) {
    add(fmt::format("64Kx{}", lanes), mpi::Reading::never, {64 << 10U, lanes});
  }
  return all;
}

// The tiles of this rank's device in its own memory, and the contenders that move them.
class ProblemRun {
 public:
  ProblemRun(const Problem& problem, const std::vector<std::unique_ptr<Engine>>& engines,
             const std::vector<Setting>& settings, const mpi::Communicator& world)
      : array_{problem.source().global_shape(), bytes_of(problem.element_type()), 1},
        source_(make_tile(array_, problem.source().placement().box(world.rank()))),
        expected_(make_tile(array_, problem.target().placement().box(world.rank()))),
        target_(expected_),
        copied_(problem, world.get(), OwnPart::copied),
        sent_(problem, world.get(), OwnPart::sent) {
    add("MPI_Alltoallw", [this] { copied_.run(source_.bytes.data(), target_.bytes.data()); });
    add("MPI_Alltoallw, own part sent", [this] { sent_.run(source_.bytes.data(), target_.bytes.data()); });
    const Movement movement = make_plan(problem).movement;
    for (std::size_t i = 0; i < engines.size(); ++i) {
      const std::shared_ptr<PreparedRun> run = engines[i]->prepare(movement, array_.element_size);
      add(settings[i].name, [this, run] {
        const std::byte* from = source_.bytes.data();
        std::byte* to = target_.bytes.data();
        run->run({&from, 1}, {&to, 1});
      });
    }
  }

  // MPI_Alltoallw, the faster of the two, over each setting.
  std::vector<double> ratios(int repetitions, const mpi::Communicator& world) const {
    const ContestTimes times = time_in_turn(contenders_, {repetitions, 1}, world);
    const double theirs = std::min(median(times[0]), median(times[1]));
    std::vector<double> ratios;
    for (std::size_t i = 2; i < times.size(); ++i) ratios.push_back(theirs / median(times[i]));
    return ratios;
  }

 private:
  void add(const std::string& name, std::function<void()> call) {
    contenders_.push_back({name, std::move(call)});
    std::memset(target_.bytes.data(), 0, target_.bytes.size());
    contenders_.back().call();
    if (target_.bytes != expected_.bytes) throw RuntimeError("the result is wrong: " + name);
  }

  const MadeArray array_;
  const Tile source_;
  const Tile expected_;
  Tile target_;
  const Alltoallw copied_;
  const Alltoallw sent_;
  std::vector<Contender> contenders_;
};

// Only the first rank prints.
void run(const ComparisonArguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  const std::vector<Setting> all = settings();
  std::vector<std::unique_ptr<Engine>> engines;
  for (const Setting& setting : all) engines.push_back(mpi::make_mpi_engine(world.get(), setting.options));
  const bool speaks = world.rank() == 0;
  if (speaks) {
    fmt::print("{}, {} ranks; arrays {} times smaller than their problems say; medians of {} repetitions\n\n",
               processor_name(), world.size(), arguments.scale, arguments.repetitions);
    fmt::print("{:12} {:>7}", "problem", "MB");
    for (const Setting& setting : all) fmt::print(" {:>8}", setting.name);
    fmt::print("\n");
  }
  std::vector<RatioSummary> summaries(all.size());
  for (const Problem& problem : moving_problems(arguments)) {
    if (problem.device_count() != world.size()) {
      throw RuntimeError(fmt::format("{} has {} devices: start as many ranks", problem.id(), problem.device_count()));
    }
    const std::vector<double> ratios = ProblemRun(problem, engines, all, world).ratios(arguments.repetitions, world);
    if (!speaks) continue;
    const std::int64_t bytes = problem.target().local_size() * world.size() * bytes_of(problem.element_type());
    fmt::print("{:12} {:7.1f}", problem.id(), static_cast<double>(bytes) / 1e6);
    for (std::size_t i = 0; i < all.size(); ++i) {
      summaries[i].add(ratios[i]);
      fmt::print(" {:8.2f}", ratios[i]);
    }
    fmt::print("   {} to {}\n", to_string(problem.source()), to_string(problem.target()));
    std::fflush(stdout);
  }
  if (!speaks) return;
  fmt::print("\nMPI_Alltoallw over ours, plan auto\n");
  for (std::size_t i = 0; i < all.size(); ++i) fmt::print("{:10} {}\n", all[i].name, summaries[i].text());
}

void declare(CLI::App& app, ComparisonArguments& arguments) {
  arguments.scale = 16;
  declare_comparison(app, arguments);
}

constexpr Program<ComparisonArguments> own_memory_benchmark{
    "own_memory_benchmark", "Times settings of the MPI engine in the caller's own memory against MPI_Alltoallw.",
    declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::own_memory_benchmark, argument_count, arguments);
}
