// The CUDA engine: the devices of a run are parts of one GPU's memory, and a stage is one launch of one kernel.
#pragma once

#include <cstdint>
#include <memory>

#include "retile/engines/engine.h"
#include "retile/plan/memory.h"

namespace retile::cuda {

struct CudaOptions {
  int gpu = 0;
  std::int64_t memory_limit = no_memory_limit;  // bytes of tiles per device
};

// Tiles are memory of the GPU: from allocate(), cudaMalloc() or anybody else. Throws RuntimeError where there is no
// such GPU or its driver is too old.
std::unique_ptr<Engine> make_cuda_engine(const CudaOptions& options = {});

}  // namespace retile::cuda
