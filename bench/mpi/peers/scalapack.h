// ScaLAPACK's p?gemr2d: between any two block-cyclic layouts of a matrix.
#pragma once

#include "bench/mpi/peers/peer_run.h"

namespace retile::bench {

// Matrices of f32 or f64 with a tile of its own on every device, before and after.
evaluation::Contender make_scalapack_peer(const Problem& problem, MPI_Comm comm);

}  // namespace retile::bench
