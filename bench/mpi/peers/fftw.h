// FFTW's distributed transpose, which is a change from rows to columns.
#pragma once

#include "bench/mpi/peers/peer_run.h"

namespace retile::bench {

// Matrices of f32, cut along their rows over all devices and then along their columns in the same order.
evaluation::Contender make_fftw_peer(const Problem& problem, MPI_Comm comm);

}  // namespace retile::bench
