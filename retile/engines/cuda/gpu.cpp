#include "retile/engines/cuda/gpu.h"

#include <fmt/format.h>

#include "retile/base/error.h"

namespace retile::cuda {

void require(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // not to be told again
  throw RuntimeError(fmt::format("{} failed: {}", call, cudaGetErrorString(error)));
}

CurrentGpu::CurrentGpu(int gpu) {
  require(cudaGetDevice(&before_), "cudaGetDevice");
  if (gpu != before_) require(cudaSetDevice(gpu), "cudaSetDevice");
}

CurrentGpu::~CurrentGpu() { cudaSetDevice(before_); }

void require_gpu(int gpu) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    throw RuntimeError(fmt::format("there is no GPU that CUDA can use: {}", cudaGetErrorString(error)));
  }
  if (gpu < 0 || gpu >= count) throw RuntimeError(fmt::format("there is no GPU {}: CUDA sees {}", gpu, count));
}

Buffer allocate(int gpu, std::size_t bytes) {
  if (bytes == 0) return {};
  const CurrentGpu current(gpu);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    cudaMemGetInfo(&free_bytes, &all_bytes);
    throw RuntimeError(
        fmt::format("GPU {} has no memory for {} bytes: {} of {} are free", gpu, bytes, free_bytes, all_bytes));
  }
  require(error, "cudaMalloc");
  return {static_cast<std::byte*>(memory), bytes, std::shared_ptr<void>(memory, [](void* own) { cudaFree(own); })};
}

void require_on_gpu(int gpu, const void* tile) {
  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, tile), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
    throw RuntimeError(fmt::format("a tile lies in memory of the host, not of GPU {}", gpu));
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != gpu) {
    throw RuntimeError(fmt::format("a tile lies in memory of GPU {}, not of GPU {}", attributes.device, gpu));
  }
}

}  // namespace retile::cuda
