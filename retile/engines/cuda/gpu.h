// One GPU: errors as exceptions, memory and streams that free themselves.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "retile/memory/buffer.h"

namespace retile::cuda {

// Throws RuntimeError with CUDA's words where a call failed.
void require(cudaError_t error, const char* call);

// Makes a GPU the current one of this thread, and the one before it when it goes.
class CurrentGpu {
 public:
  explicit CurrentGpu(int gpu);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  int before_ = 0;
};

// Throws RuntimeError where there is no such GPU, or no driver.
void require_gpu(int gpu);

// Memory of the GPU. Throws RuntimeError where there is none left.
Buffer allocate(int gpu, std::size_t bytes);

// Throws RuntimeError where a tile does not lie in memory of the GPU.
void require_on_gpu(int gpu, const void* tile);

// A list in memory of the GPU.
template <typename Value>
class DeviceList {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  DeviceList() = default;
  DeviceList(int gpu, const std::vector<Value>& values) : memory_(allocate(gpu, values.size() * sizeof(Value))) {
    if (values.empty()) return;
    require(cudaMemcpy(memory_.data(), values.data(), values.size() * sizeof(Value), cudaMemcpyHostToDevice),
            "cudaMemcpy");
  }
  const Value* data() const { return reinterpret_cast<const Value*>(memory_.data()); }
  std::size_t bytes() const { return memory_.size(); }

 private:
  Buffer memory_;
};

}  // namespace retile::cuda
