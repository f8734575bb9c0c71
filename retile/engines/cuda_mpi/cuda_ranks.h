// The CUDA engine on MPI ranks, for programs that include no MPI header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/plan/memory.h"
#include "retile/types/mesh.h"

namespace retile::cuda {

struct CudaRankOptions {
  std::optional<int> gpu;                       // of this rank; nothing: ranks of a host take its GPUs in turn
  std::int64_t memory_limit = no_memory_limit;  // bytes of tiles per device
  std::vector<Device> device_map;               // devices rank by rank; empty: the first ones on rank 0 and so on
};

// On all ranks of MPI, which has started. See make_cuda_engine() in cuda_mpi_engine.h.
std::unique_ptr<Engine> make_cuda_engine_on_all_ranks(const CudaRankOptions& options = {});

}  // namespace retile::cuda
