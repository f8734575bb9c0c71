// The CUDA engine on MPI ranks: devices are ranks, or equally many to a rank, whose tiles are memory of their GPU.
//
// On one host, one of the ranks of each GPU copies for all of them, by one launch a stage, from where the tiles lie and
// to where they lie: processes show each other their memory by CUDA IPC, and take no turns on a GPU that they share.
// Between hosts, tiles are packed into messages of NCCL and unpacked from them, in rounds under a cap on their memory.
//
// As with the MPI engine, making it and preparing runs is collective, and what fails on one rank throws on all that
// wait for it. With IPC, tiles are memory of cudaMalloc() or allocate(). They stay mapped in other processes until the
// run is given others or is gone; memory that was freed meanwhile is not read again.
#pragma once

#include <mpi.h>

#include <memory>

#include "retile/engines/cuda_mpi/cuda_ranks.h"

namespace retile::cuda {

// Collective. Works on a duplicate of the communicator, and must go before MPI_Finalize. Throws RuntimeError on all
// ranks where one has no such GPU, or they are on several hosts and NCCL cannot join them.
std::unique_ptr<Engine> make_cuda_engine(MPI_Comm comm, const CudaRankOptions& options = {});

}  // namespace retile::cuda
