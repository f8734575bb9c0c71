// Times block-cyclic matrices of ScaLAPACK's, as they lie in the caller's memory with leading dimensions, against
// pdgemr2d. Under mpirun.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "bench/comparison.h"
#include "bench/mpi/contest.h"
#include "bench/mpi/mpi_program.h"
#include "bench/mpi/scalapack_calls.h"
#include "retile/base/error.h"
#include "retile/mpi.h"
#include "retile/retile.h"

namespace retile::bench {
namespace {

struct Arguments {
  ContestArguments contest;
  int rows = 2000;
  int columns = 1500;
};

// A matrix on a grid of processes, and this process's part of it: column-major, with a few elements behind each column
// that are not the matrix's.
struct Matrix {
  Matrix(const Arguments& arguments, ProcessGrid processes, int block) : grid(processes) {
    int context = 0;
    Cblacs_get(-1, 0, &context);
    Cblacs_gridinit(&context, "R", grid.rows, grid.columns);
    int row = 0;
    int column = 0;
    Cblacs_gridinfo(context, &grid.rows, &grid.columns, &row, &column);
    const int first = 0;
    const int local_rows = numroc_(&arguments.rows, &block, &row, &first, &grid.rows);
    const int local_columns = numroc_(&arguments.columns, &block, &column, &first, &grid.columns);
    const int leading = local_rows + 3;
    descriptor = {1, context, arguments.rows, arguments.columns, block, block, first, first, leading};
    part.assign(static_cast<std::size_t>(leading) * static_cast<std::size_t>(local_columns), -1.0);
    whole = part;  // NOLINT(*-member-initializer): its size follows from the grid
    const auto global = [&](int at, int place, int count) { return (at / block * count + place) * block + at % block; };
    for (int j = 0; j < local_columns; ++j) {
      for (int i = 0; i < local_rows; ++i) {
        whole[static_cast<std::size_t>(j) * static_cast<std::size_t>(leading) + static_cast<std::size_t>(i)] =
            global(i, row, grid.rows) * 1e5 + global(j, column, grid.columns);
      }
    }
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { Cblacs_gridexit(descriptor[1]); }

  std::string text() const { return fmt::format("blocks of {} on {} x {}", descriptor[4], grid.rows, grid.columns); }

  ProcessGrid grid;
  std::array<int, 9> descriptor{};
  std::vector<double> part;   // as it is before a run
  std::vector<double> whole;  // as it is after one
};

// Grids as square as the number of ranks allows, and the other way round.
ProcessGrid grid_of(int ranks, bool is_wide) {
  std::array<int, 2> sizes{};
  MPI_Dims_create(ranks, 2, sizes.data());
  return is_wide ? ProcessGrid{sizes[1], sizes[0]} : ProcessGrid{sizes[0], sizes[1]};
}

void run(const Arguments& arguments) {
  const mpi::Communicator world = mpi::Communicator::duplicate(MPI_COMM_WORLD);
  Matrix source(arguments, grid_of(world.size(), true), 32);
  Matrix target(arguments, grid_of(world.size(), false), 48);
  source.part = source.whole;
  const Problem problem("", layout_from_descriptor(source.descriptor, source.grid),
                        layout_from_descriptor(target.descriptor, target.grid), ElementType::f64);
  RedistributeOptions options;
  options.sources = {memory_from_descriptor(source.descriptor, sizeof(double))};
  options.targets = {memory_from_descriptor(target.descriptor, sizeof(double))};
  std::vector<double> memory = target.part;
  const std::span<const double> from(source.part);
  const std::span<double> to(memory);
  auto prepared = mpi::prepare<double>(problem, world.get(), options);
  const std::vector<Contender> contenders{
      {"ours, prepared once",
       [&] {
         prepared.run({&from, 1}, {&to, 1});
       }},
      {"ours, planned in every call", [&] { mpi::redistribute<double>(problem, world.get(), from, to, options); }},
      {"pdgemr2d, which plans in every call", [&] {
         Cpdgemr2d(arguments.rows, arguments.columns, source.part.data(), 1, 1, source.descriptor.data(), memory.data(),
                   1, 1, target.descriptor.data(), source.descriptor[1]);
       }}};
  for (const Contender& contender : contenders) {
    std::copy(target.part.begin(), target.part.end(), memory.begin());
    contender.call();
    if (memory != target.whole) throw RuntimeError("the matrix is wrong: " + contender.name);
  }
  const ContestTimes times = time_in_turn(contenders, arguments.contest, world);
  if (world.rank() != 0) return;
  const std::string title = fmt::format("{} x {} f64 with leading dimensions, {} to {}", arguments.rows,
                                        arguments.columns, source.text(), target.text());
  fmt::print("{}", contest_text(title, contenders, times));
}

void declare(CLI::App& app, Arguments& arguments) {
  arguments.contest.calls = 5;
  declare_contest(app, arguments.contest);
  app.add_option("--rows", arguments.rows, "of the matrix")->capture_default_str();
  app.add_option("--columns", arguments.columns, "of the matrix")->capture_default_str();
}

constexpr Program<Arguments> matrix_benchmark{
    "matrix_benchmark", "Times block-cyclic matrices with leading dimensions against ScaLAPACK's pdgemr2d.", declare,
    run};

}  // namespace
}  // namespace retile::bench

int main(int argument_count, char** arguments) {
  return retile::bench::run_mpi_program(retile::bench::matrix_benchmark, argument_count, arguments);
}
