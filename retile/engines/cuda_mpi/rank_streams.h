// Streams between ranks whose tiles are memory of GPUs.
#pragma once

#include <memory>

#include "retile/engines/backend.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda_mpi/gpu_ranks.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/job.h"

namespace retile::cuda {

// Collective. The job and the ranks outlive them.
std::shared_ptr<PreparedStreams> make_rank_streams(mpi::Job& job, const GpuRanks& gpus, std::shared_ptr<const Gpu> gpu,
                                                   Streams streams, const mpi::DeviceRanks& ranks);

}  // namespace retile::cuda
