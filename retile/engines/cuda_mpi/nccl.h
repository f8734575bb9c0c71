// Messages between GPUs of different processes, by NCCL: a communicator of the engine's own over the ranks of a job.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

#include "retile/engines/mpi/job.h"

struct ncclComm;  // ncclComm_t points to one

namespace retile::cuda {

// A message to or from another rank, in memory of the GPU.
struct NcclMessage {
  int peer = 0;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// Calls never wait for other ranks, so that a rank can always hear that another one has failed.
class NcclRanks {
 public:
  // Collective. Splits off the caller's communicator, if there is one, which has the same ranks as the job. Throws
  // RuntimeError on all ranks where NCCL cannot be loaded, or does not take them.
  NcclRanks(mpi::Job& job, int gpu, ncclComm* callers);
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;
  ~NcclRanks();

  // The stream of messages.
  cudaStream_t stream() const { return stream_; }

  // Begins to put a group of messages on the stream. All ranks put the same groups there, in the same order.
  void exchange(std::span<const NcclMessage> sent, std::span<const NcclMessage> received);
  // Whether the last group stands on the stream. Throws RuntimeError where a message has failed.
  bool is_queued();

  // Ends messages that wait for other ranks. No others can follow.
  void abort() noexcept;

 private:
  void connect(ncclComm* callers, const void* id);

  mpi::Job& job_;
  const int gpu_;
  ncclComm* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace retile::cuda
