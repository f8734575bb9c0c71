// The CUDA engine: the devices of a run are parts of one GPU's memory, and a stage is one launch of one kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "retile/engines/engine.h"
#include "retile/plan/memory.h"

struct CUstream_st;  // cudaStream_t points to one

namespace retile::cuda {

struct CudaOptions {
  int gpu = 0;
  std::int64_t memory_limit = no_memory_limit;  // bytes of tiles per device
  // The stream that a run goes to, asked when it starts. What was put there before is done first, and what is put there
  // afterwards finds the targets complete: start() puts the whole run there and returns, so it can be recorded in a
  // graph, which uses the run's memory. Executions of one run that are on their way at once go to one stream. Empty: a
  // stream of the engine's own, and what others wrote must be there before a run starts.
  std::function<CUstream_st*()> stream = {};
};

// Tiles are memory of the GPU: from allocate(), cudaMalloc() or anybody else. Throws RuntimeError where there is no
// such GPU or its driver is too old.
std::unique_ptr<Engine> make_cuda_engine(const CudaOptions& options = {});

}  // namespace retile::cuda
