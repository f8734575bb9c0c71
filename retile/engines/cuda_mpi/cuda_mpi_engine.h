// The CUDA engine on MPI ranks of one host: devices are ranks, or equally many to a rank, whose tiles are memory of
// their GPU. For each GPU one of its ranks copies for all of them, by one launch a stage, from where the tiles lie and
// to where they lie: processes show each other their memory by CUDA IPC, and take no turns on a GPU that they share.
//
// As with the MPI engine, making it and preparing runs is collective, and what fails on one rank throws on all that
// wait for it. Tiles are memory of cudaMalloc() or allocate(). They stay mapped in other processes until the run is
// given others or is gone; memory that was freed meanwhile is not read again.
#pragma once

#include <mpi.h>

#include <memory>

#include "retile/engines/cuda_mpi/cuda_ranks.h"

namespace retile::cuda {

// Collective. Works on a duplicate of the communicator, and must go before MPI_Finalize. Throws RuntimeError on all
// ranks where one has no such GPU, or they are on several hosts.
std::unique_ptr<Engine> make_cuda_engine(MPI_Comm comm, const CudaRankOptions& options = {});

}  // namespace retile::cuda
