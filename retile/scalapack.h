// Matrices of ScaLAPACK as they are: block-cyclic over a grid of processes, column-major with a leading dimension.
//
//   const retile::ProcessGrid grid{2, 3};  // of BLACS: 2 rows and 3 columns of processes
//   const retile::Layout source = retile::layout_from_descriptor(from, grid);
//   const retile::Layout target = retile::layout_from_descriptor(to, grid);
//   const retile::Problem problem("", source, target, retile::ElementType::f64);
//   retile::RedistributeOptions options;
//   options.sources = {retile::memory_from_descriptor(from, sizeof(double))};
//   options.targets = {retile::memory_from_descriptor(to, sizeof(double))};
//   auto redistribution = retile::mpi::prepare<double>(problem, comm, options);
#pragma once

#include <cstdint>
#include <span>

#include "retile/redistribute.h"
#include "retile/types/layout.h"

namespace retile {

// The grid of a BLACS context. Ranks are numbered along its rows, as Cblacs_gridinit() does by 'R', or along its
// columns.
struct ProcessGrid {
  int rows = 1;
  int columns = 1;
  MemoryOrder ranks = MemoryOrder::row_major;
};

// The nine integers of a dense matrix's descriptor: DTYPE_ (1), CTXT_ (not looked at), M_, N_, MB_, NB_, RSRC_, CSRC_,
// LLD_.
using MatrixDescriptor = std::span<const int, 9>;

// The layout of the whole matrix: "[M cyclic MB{row} from RSRC, N cyclic NB{column} from CSRC]". Throws InputError
// where the descriptor is not one of a dense matrix on the grid.
Layout layout_from_descriptor(MatrixDescriptor descriptor, const ProcessGrid& grid);

// How this process's part of the matrix lies in its memory: columns are LLD_ elements apart. Throws InputError as
// above.
MemoryLayout memory_from_descriptor(MatrixDescriptor descriptor, std::int64_t element_size);

}  // namespace retile
