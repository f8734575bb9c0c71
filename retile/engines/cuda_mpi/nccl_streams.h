// Streams between GPUs of ranks that may be on several hosts: packed by the kernel, sent by NCCL, unpacked by the
// kernel.
#pragma once

#include <cstdint>
#include <memory>

#include "retile/engines/backend.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda_mpi/nccl.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/job.h"

namespace retile::cuda {

// Collective. The job and the ranks outlive them. Streams without planned rounds go in as many as keep a rank's staging
// within the job's. All ranks execute streams in the same order.
std::shared_ptr<PreparedStreams> make_nccl_streams(mpi::Job& job, NcclRanks& nccl, std::shared_ptr<const Gpu> gpu,
                                                   const Streams& streams, const mpi::DeviceRanks& ranks);

}  // namespace retile::cuda
