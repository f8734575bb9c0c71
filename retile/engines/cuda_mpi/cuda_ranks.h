// The CUDA engine on MPI ranks, for programs that include no MPI header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/plan/memory.h"
#include "retile/types/mesh.h"

struct ncclComm;

namespace retile::cuda {

// How tiles reach other ranks.
enum class CudaTransport {
  automatic,  // ipc where all ranks are on one host, nccl otherwise
  ipc,        // where they lie, by one launch for each GPU: ranks of one host
  nccl,       // packed, sent and unpacked, in rounds: all ranks start runs in the same order, and starts wait
};

struct CudaRankOptions {
  std::optional<int> gpu;                       // of this rank; nothing: ranks of a host take its GPUs in turn
  std::int64_t memory_limit = no_memory_limit;  // bytes of tiles per device
  CudaTransport transport = CudaTransport::automatic;
  // With NCCL: the most bytes that a rank has beside tiles for messages, and a communicator of the caller's own with
  // the same ranks (an ncclComm_t), which the engine splits its own off; null: it makes one.
  std::int64_t staging_bytes = std::int64_t{16} << 20U;
  ncclComm* communicator = nullptr;
  std::vector<Device> device_map;  // devices rank by rank; empty: the first ones on rank 0 and so on
};

// On all ranks of MPI, which has started. See make_cuda_engine() in cuda_mpi_engine.h.
std::unique_ptr<Engine> make_cuda_engine_on_all_ranks(const CudaRankOptions& options = {});

}  // namespace retile::cuda
