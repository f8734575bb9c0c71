// 4. Matrices of ScaLAPACK as they are: block-cyclic with a ragged last block, another grid and other blocks at the
// target, a first process that is not 0, leading dimensions. Their descriptors say all of it, and pdgemr2d does the
// same.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "retile/mpi.h"
#include "retile/retile.h"

// The C interfaces of BLACS and of the redistribution routines come without a header.
extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
void Cblacs_gridexit(int context);
int numroc_(const int* size, const int* block, const int* process, const int* first, const int* processes);
void Cpdgemr2d(int rows, int columns, double* a, int ia, int ja, int* a_descriptor, double* b, int ib, int jb,
               int* b_descriptor, int context);
}

namespace {

constexpr int rows = 1000;
constexpr int columns = 700;

// A matrix on a grid of processes, and this process's part of it.
struct Matrix {
  retile::ProcessGrid grid;
  std::array<int, 9> descriptor{};
  std::vector<double> part;  // column-major, with some elements between columns that are not the matrix's
};

Matrix make_matrix(retile::ProcessGrid grid, int row_block, int column_block, int first_row, int first_column) {
  int context = 0;
  Cblacs_get(-1, 0, &context);
  Cblacs_gridinit(&context, "R", grid.rows, grid.columns);
  int row = 0;
  int column = 0;
  Cblacs_gridinfo(context, &grid.rows, &grid.columns, &row, &column);
  const int local_rows = numroc_(&rows, &row_block, &row, &first_row, &grid.rows);
  const int local_columns = numroc_(&columns, &column_block, &column, &first_column, &grid.columns);
  const int leading = local_rows + 3;
  Matrix matrix{grid, {1, context, rows, columns, row_block, column_block, first_row, first_column, leading}, {}};
  matrix.part.assign(static_cast<std::size_t>(leading) * static_cast<std::size_t>(local_columns), -1.0);
  for (int j = 0; j < local_columns; ++j) {
    const int turn = (column - first_column + grid.columns) % grid.columns;
    const int global_column = (j / column_block * grid.columns + turn) * column_block + j % column_block;
    for (int i = 0; i < local_rows; ++i) {
      const int row_turn = (row - first_row + grid.rows) % grid.rows;
      const int global_row = (i / row_block * grid.rows + row_turn) * row_block + i % row_block;
      matrix.part[static_cast<std::size_t>(j * leading + i)] = global_row + 1e-4 * global_column;
    }
  }
  return matrix;
}

int compare(Matrix& source, Matrix& target) {
  std::vector<double> expected(target.part.size(), -1.0);
  Cpdgemr2d(rows, columns, source.part.data(), 1, 1, source.descriptor.data(), expected.data(), 1, 1,
            target.descriptor.data(), source.descriptor[1]);

  const retile::Problem problem("", retile::layout_from_descriptor(source.descriptor, source.grid),
                                retile::layout_from_descriptor(target.descriptor, target.grid),
                                retile::ElementType::f64);
  retile::RedistributeOptions options;
  options.sources = {retile::memory_from_descriptor(source.descriptor, sizeof(double))};
  options.targets = {retile::memory_from_descriptor(target.descriptor, sizeof(double))};
  std::fill(target.part.begin(), target.part.end(), -1.0);
  const std::span<const double> from(source.part);
  const std::span<double> to(target.part);
  retile::mpi::redistribute<double>(problem, MPI_COMM_WORLD, from, to, options);

  int wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += target.part[i] != expected[i] ? 1 : 0;
  int all_wrong = 0;
  MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  return all_wrong;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    int count = 0;
    int rank = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (count != 4) throw retile::RuntimeError("start this with 4 ranks");
    Matrix source = make_matrix({2, 2}, 32, 32, 0, 0);
    Matrix target = make_matrix({1, 4}, 48, 40, 0, 2);
    const int wrong = compare(source, target);
    if (rank == 0) {
      std::printf("%d x %d, blocks of 32 x 32 on 2 x 2 to 48 x 40 on 1 x 4: %d elements differ from pdgemr2d\n", rows,
                  columns, wrong);
    }
    Cblacs_gridexit(source.descriptor[1]);
    Cblacs_gridexit(target.descriptor[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
