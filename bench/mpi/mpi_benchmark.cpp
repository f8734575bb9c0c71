// Times the MPI engine against one MPI_Alltoallw, and its collectives against the bare ones of MPI. Under mpirun, with
// as many ranks as the problems have devices.
#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/mpi/alltoallw.h"
#include "bench/mpi/bare_collectives.h"
#include "bench/mpi/mpi_program.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

namespace retile::bench {
namespace {

// One way to do a problem's work.
struct Contender {
  std::string name;
  std::function<void()> run;
  bool moves_data = true;  // to where it belongs, so that it can be checked
};

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// From the first rank's start to the last one's end, on the clock that all ranks of a host have. A rank's own duration
// says little where ranks outnumber cores.
double span_of(const mpi::Communicator& world, const std::function<void()>& action) {
  world.barrier();
  std::int64_t times[] = {0, -now()};
  action();
  times[0] = now();
  world.most(times);
  return static_cast<double>(times[0] + times[1]) * 1e-9;
}

Plan plan_of(const Problem& problem, PlannerKind planner) {
  PlanOptions options;
  options.planner = planner;
  return make_plan(problem, options);
}

mpi::MpiOptions collective_options() {
  mpi::MpiOptions options;
  options.transport = mpi::Transport::collectives;
  return options;
}

// The tiles of this rank's device, and the contenders that move them.
class ProblemRun {
 public:
  ProblemRun(const Problem& problem, const mpi::Communicator& world)
      : problem_(problem),
        world_(world),
        device_(world.rank()),
        element_size_(bytes_of(problem.element_type())),
        array_{problem.source().global_shape(), element_size_, 1},
        direct_(mpi::make_mpi_engine(world.get())),
        collectives_(mpi::make_mpi_engine(world.get(), collective_options())),
        own_source_(make_tile(array_, problem.source().placement().box(device_))),
        shared_source_(make_tile(array_, own_source_.box, direct_->allocate(own_source_.bytes.size()))),
        expected_(make_tile(array_, problem.target().placement().box(device_))),
        target_(expected_) {
    const Plan direct = plan_of(problem, PlannerKind::direct);
    const Plan wide = plan_of(problem, PlannerKind::wide);
    const Plan paper = plan_of(problem, PlannerKind::paper);
    contenders_.push_back({"memcpy", [this] { copy_target(); }});
    add_alltoallw("alltoallw", OwnPart::copied);
    add_alltoallw("alltoallw, own part sent", OwnPart::sent);
    add_engine("direct", direct, *direct_, shared_source_);
    add_engine("wide", wide, *direct_, shared_source_);
    add_engine("direct, own buffers", direct, *direct_, own_source_);
    add_engine("wide, own buffers", wide, *direct_, own_source_);
    add_engine("paper", paper, *direct_, shared_source_);
    add_engine("paper, collectives", paper, *collectives_, own_source_);
    const auto bare = std::make_shared<BareCollectives>(paper, world.get(), element_size_);
    contenders_.push_back({"bare collectives", [bare] { bare->run(); }, false});
  }

  // Medians by contender, in seconds.
  std::vector<double> times(int repetitions) {
    for (const Contender& contender : contenders_) require_right(contender);
    std::vector<std::vector<double>> spans(contenders_.size());
    for (int i = 0; i < repetitions; ++i) {
      for (std::size_t j = 0; j < contenders_.size(); ++j) spans[j].push_back(span_of(world_, contenders_[j].run));
    }
    std::vector<double> medians;
    for (std::vector<double>& values : spans) medians.push_back(median(std::move(values)));
    return medians;
  }

 private:
  void copy_target() { std::memcpy(target_.bytes.data(), expected_.bytes.data(), target_.bytes.size()); }

  void add_alltoallw(const char* name, OwnPart own_part) {
    const auto alltoallw = std::make_shared<Alltoallw>(problem_, world_.get(), own_part);
    contenders_.push_back(
        {name, [this, alltoallw] { alltoallw->run(own_source_.bytes.data(), target_.bytes.data()); }});
  }

  void add_engine(const char* name, const Plan& plan, Engine& engine, const Tile& source) {
    const std::shared_ptr<PreparedRun> run = engine.prepare(plan.movement, element_size_);
    contenders_.push_back({name, [this, run, &source] {
                             const std::byte* from = source.bytes.data();
                             std::byte* to = target_.bytes.data();
                             run->run({&from, 1}, {&to, 1});
                           }});
  }

  void require_right(const Contender& contender) {
    std::memset(target_.bytes.data(), 0, target_.bytes.size());
    contender.run();
    if (!contender.moves_data || target_.bytes == expected_.bytes) return;
    fmt::print(stderr, "{}, {}: device {} has a wrong result\n", problem_.id(), contender.name, device_);
    MPI_Abort(MPI_COMM_WORLD, 3);
  }

  const Problem problem_;
  const mpi::Communicator& world_;
  const Device device_;
  const std::int64_t element_size_;
  const MadeArray array_;
  const std::unique_ptr<Engine> direct_;
  const std::unique_ptr<Engine> collectives_;
  const Tile own_source_;
  const Tile shared_source_;
  const Tile expected_;
  Tile target_;
  std::vector<Contender> contenders_;
};

// Times of one problem, in seconds, in the order of the contenders.
struct Times {
  double memcpy, copied_own_part, sent_own_part, direct, wide, own_direct, own_wide, paper, collectives, bare;

  explicit Times(const std::vector<double>& medians)
      : memcpy(medians[0]),
        copied_own_part(medians[1]),
        sent_own_part(medians[2]),
        direct(medians[3]),
        wide(medians[4]),
        own_direct(medians[5]),
        own_wide(medians[6]),
        paper(medians[7]),
        collectives(medians[8]),
        bare(medians[9]) {}

  double alltoallw() const { return std::min(copied_own_part, sent_own_part); }
};

// A column of the table: a ratio of two times.
struct Column {
  const char* title;
  const char* meaning;
  double (*ratio)(const Times& times);
};

const std::vector<Column> columns{
    {"floor", "MPI_Alltoallw over memcpy of the target tile", [](const Times& t) { return t.alltoallw() / t.memcpy; }},
    {"direct", "MPI_Alltoallw over the engine, plan direct", [](const Times& t) { return t.alltoallw() / t.direct; }},
    {"wide", "the same, plan wide", [](const Times& t) { return t.alltoallw() / t.wide; }},
    {"better", "the same, the better of the two",
     [](const Times& t) { return t.alltoallw() / std::min(t.direct, t.wide); }},
    {"paper", "the same, plan paper", [](const Times& t) { return t.alltoallw() / t.paper; }},
    {"own d.", "direct from buffers that the engine did not allocate",
     [](const Times& t) { return t.alltoallw() / t.own_direct; }},
    {"own w.", "wide from such buffers", [](const Times& t) { return t.alltoallw() / t.own_wide; }},
    {"own b.", "the better of the two",
     [](const Times& t) { return t.alltoallw() / std::min(t.own_direct, t.own_wide); }},
    {"coll.", "the engine with MPI's collectives over the bare collectives, plan paper",
     [](const Times& t) { return t.collectives / t.bare; }},
};

// Only the first rank prints.
void run(const ComparisonArguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  const bool speaks = world.rank() == 0;
  if (speaks) {
    fmt::print("{}, {} ranks; arrays {} times smaller than their problems say; medians of {} repetitions\n\n",
               processor_name(), world.size(), arguments.scale, arguments.repetitions);
    fmt::print("{:12} {:>7} {:>9}", "problem", "MB", "all2allw");
    for (const Column& column : columns) fmt::print(" {:>6}", column.title);
    fmt::print("\n");
  }
  std::vector<RatioSummary> summaries(columns.size());
  for (const Problem& problem : moving_problems(arguments)) {
    if (problem.device_count() != world.size()) {
      throw RuntimeError(fmt::format("{} has {} devices: start as many ranks", problem.id(), problem.device_count()));
    }
    const Times times(ProblemRun(problem, world).times(arguments.repetitions));
    if (!speaks) continue;
    const std::int64_t bytes = problem.target().local_size() * world.size() * bytes_of(problem.element_type());
    fmt::print("{:12} {:7.1f} {:6.2f} ms", problem.id(), static_cast<double>(bytes) / 1e6, 1e3 * times.alltoallw());
    for (std::size_t i = 0; i < columns.size(); ++i) {
      summaries[i].add(columns[i].ratio(times));
      fmt::print(" {:6.2f}", columns[i].ratio(times));
    }
    fmt::print("   {} to {}\n", to_string(problem.source()), to_string(problem.target()));
    std::fflush(stdout);
  }
  if (!speaks) return;
  fmt::print("\n");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    fmt::print("{:6}  {}: {}\n", columns[i].title, columns[i].meaning, summaries[i].text());
  }
}

void declare(CLI::App& app, ComparisonArguments& arguments) {
  arguments.scale = 16;
  declare_comparison(app, arguments);
}

constexpr Program<ComparisonArguments> mpi_benchmark{
    "mpi_benchmark", "Times the MPI engine against MPI_Alltoallw and against bare collectives.", declare, run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::mpi_benchmark, argument_count, arguments);
}
