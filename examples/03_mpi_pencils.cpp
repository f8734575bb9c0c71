// 3. Pencils of a three-dimensional array under MPI, as an FFT needs them: a Cartesian communicator, padded memory of
// the program's own, errors caught, and the job ended properly when one rank fails.
#include <mpi.h>

#include <array>
#include <complex>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "retile/mpi.h"
#include "retile/retile.h"

namespace {

using Complex = std::complex<double>;

constexpr std::array<int, 3> shape{12, 8, 10};

Complex element(int x, int y, int z) { return {static_cast<double>(100 * x + 10 * y + z), -1}; }

// Pencils along z become pencils along y: in rows of the process grid, the second dimension is cut instead of the
// third.
void transpose(MPI_Comm grid, int rank, std::array<int, 2> processes) {
  // MPI's Cartesian ranks are row-major over the grid, as retile's devices are over its mesh.
  const std::string mesh = "row=" + std::to_string(processes[0]) + ",column=" + std::to_string(processes[1]);
  const int x_count = shape[0] / processes[0];
  const int y_count = shape[1] / processes[1];
  const int z_count = shape[2] / processes[1];
  const auto cut = [](const char* axis, int tile, int size) {
    return std::to_string(tile) + "{" + axis + "}" + std::to_string(size);
  };
  const std::string x = cut("row", x_count, shape[0]);
  const retile::Problem problem = retile::parse_problem(
      {"mesh", mesh}, {"source", "[" + x + ", " + cut("column", y_count, shape[1]) + ", 10]"},
      {"target", "[" + x + ", 8, " + cut("column", z_count, shape[2]) + "]"}, retile::ElementType::c128);

  // Rows of z are padded to 12 elements, and the result lies with y innermost, as the next FFT wants it.
  constexpr int padded = 12;
  std::vector<Complex> source(static_cast<std::size_t>(x_count * y_count * padded));
  const int x_first = rank / processes[1] * x_count;
  const int y_first = rank % processes[1] * y_count;
  for (int i = 0; i < x_count; ++i) {
    for (int j = 0; j < y_count; ++j) {
      for (int k = 0; k < shape[2]; ++k) {
        source[static_cast<std::size_t>((i * y_count + j) * padded + k)] = element(x_first + i, y_first + j, k);
      }
    }
  }
  std::vector<Complex> target(static_cast<std::size_t>(x_count * shape[1] * z_count));
  constexpr std::int64_t bytes = sizeof(Complex);
  retile::RedistributeOptions options;
  options.sources = {retile::layout_within({x_count, y_count, padded}, {0, 0, 0}, bytes)};
  options.targets = {{0, {shape[1] * z_count * bytes, bytes, shape[1] * bytes}}};
  const std::span<const Complex> from(source);
  const std::span<Complex> to(target);
  retile::mpi::redistribute<Complex>(problem, grid, from, to, options);

  int wrong = 0;
  const int z_first = rank % processes[1] * z_count;
  for (int i = 0; i < x_count; ++i) {
    for (int k = 0; k < z_count; ++k) {
      for (int j = 0; j < shape[1]; ++j) {
        wrong +=
            target[static_cast<std::size_t>((i * z_count + k) * shape[1] + j)] != element(x_first + i, j, z_first + k);
      }
    }
  }
  int all_wrong = 0;
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, grid);
  if (rank == 0) std::printf("%s: %d elements are wrong\n", mesh.c_str(), all_wrong);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    int count = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    if (count != 2 && count != 4) throw retile::RuntimeError("start this with 2 or 4 ranks");
    const std::array<int, 2> processes{count / 2, 2};
    const std::array<int, 2> periodic{0, 0};
    MPI_Comm grid = MPI_COMM_NULL;
    MPI_Cart_create(MPI_COMM_WORLD, 2, processes.data(), periodic.data(), 1, &grid);
    int rank = 0;
    MPI_Comm_rank(grid, &rank);
    transpose(grid, rank, processes);
    MPI_Comm_free(&grid);
  } catch (const std::exception& error) {
    // Other ranks may be waiting for this one: the whole job ends.
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
