// One GPU: errors as exceptions, memory that frees itself, and the stream that an engine's work goes to.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/cuda/cuda_engine.h"
#include "retile/engines/cuda/gpu_pages.h"
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

// How many GPUs CUDA sees. Throws RuntimeError where it sees none, or there is no driver.
int count_gpus();

// A point in a stream. Waiting for it is work.
class StreamEvent final : public Work {
 public:
  explicit StreamEvent(int gpu);
  ~StreamEvent() override;
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  // All that stands in the stream now is before it.
  void record(cudaStream_t stream);
  // What is put on the stream afterwards comes after it.
  void hold(cudaStream_t stream) const;
  bool advance() override;
  bool is_done() const override { return is_reached_; }

 private:
  cudaEvent_t event_ = nullptr;
  bool is_reached_ = true;
};

// State that all runs of an engine share.
class Gpu final : public Backend::DeviceMemory {
 public:
  // Throws RuntimeError where there is no such GPU.
  explicit Gpu(CudaOptions options);
  ~Gpu() override;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int number() const { return options_.gpu; }
  std::int64_t memory_limit() const { return options_.memory_limit; }

  // The caller's, or the engine's own. Throws RuntimeError where the caller's belongs to another GPU.
  cudaStream_t stream() const;
  bool has_callers_stream() const { return options_.stream != nullptr; }
  bool is_capturing(cudaStream_t stream) const;
  // Done when all is that stands in the stream now; null where it is being recorded in a graph.
  std::unique_ptr<Work> queued() const;

  // Throws RuntimeError where there is no memory left.
  Buffer allocate(std::size_t bytes) const;
  // Copies to memory of the GPU when nobody else uses that; never becomes part of a graph.
  void upload(std::span<const std::byte> from, std::byte* to) const;

  void load(const std::byte* tile, std::span<std::byte> to) const override;
  void store(std::span<const std::byte> from, std::byte* tile) const override;
  void clear(std::span<std::byte> tile) const override;
  std::optional<std::int64_t> available() const override;

  // --- In place.

  Buffer allocate_pages(std::size_t bytes, Engine::Pages kind) const override;
  std::int64_t page_bytes() const override { return pages().page_bytes(); }
  std::int64_t resident_bytes(const Buffer& memory) const override { return pages().resident_bytes(memory); }
  GpuPages& pages() const;

  // Throws RuntimeError where a tile does not lie in memory of the GPU.
  void require_here(const void* tile) const;
  // Backend::combine(), on the stream.
  void combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) const;

 private:
  const CudaOptions options_;
  cudaStream_t own_stream_ = nullptr;
  mutable std::shared_ptr<GpuPages> pages_;  // made when they are first asked for
};

// A list in memory of the GPU.
template <typename Value>
class DeviceList {
  static_assert(std::is_trivially_copyable_v<Value>);

 public:
  DeviceList(const Gpu& gpu, std::span<const Value> values) : memory_(gpu.allocate(values.size_bytes())) {
    if (!values.empty()) gpu.upload(std::as_bytes(values), memory_.data());
  }
  Value* data() { return reinterpret_cast<Value*>(memory_.data()); }
  const Value* data() const { return reinterpret_cast<const Value*>(memory_.data()); }

 private:
  Buffer memory_;
};

}  // namespace retile::cuda
