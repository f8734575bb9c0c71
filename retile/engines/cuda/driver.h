// Functions of CUDA's driver, found through the runtime: programs start where there is no driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "retile/base/error.h"
#include "retile/engines/cuda/gpu.h"

namespace retile::cuda {

// Throws RuntimeError where the driver has no such function.
template <typename Function>
Function driver_function(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  require(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found), name);
  if (found != cudaDriverEntryPointSuccess) throw RuntimeError(fmt::format("the driver has no {}", name));
  return reinterpret_cast<Function>(function);
}

inline void require_driver(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw RuntimeError(fmt::format("{} failed: error {}", call, static_cast<int>(result)));
}

}  // namespace retile::cuda
