#include "retile/engines/cuda/gpu.h"

#include <fmt/format.h>

#include <utility>

#include "retile/base/error.h"
#include "retile/engines/cuda/kernels.h"

namespace retile::cuda {
namespace {

// While a stream is being recorded, memory can be taken and filled by other streams if this thread says that it knows.
class OutsideGraphs {
 public:
  OutsideGraphs() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~OutsideGraphs() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  OutsideGraphs(const OutsideGraphs&) = delete;
  OutsideGraphs& operator=(const OutsideGraphs&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;  // or the one before
};

}  // namespace

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

int count_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  throw RuntimeError(fmt::format("there is no GPU that CUDA can use: {}",
                                 cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error)));
}

StreamEvent::StreamEvent(int gpu) {
  const CurrentGpu current(gpu);
  require(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate");
}

StreamEvent::~StreamEvent() { cudaEventDestroy(event_); }

void StreamEvent::record(cudaStream_t stream) {
  require(cudaEventRecord(event_, stream), "cudaEventRecord");
  is_reached_ = false;
}

void StreamEvent::hold(cudaStream_t stream) const {
  require(cudaStreamWaitEvent(stream, event_), "cudaStreamWaitEvent");
}

bool StreamEvent::advance() {
  if (is_reached_) return false;
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  require(state, "the kernel that moves tiles");
  is_reached_ = true;
  return true;
}

Gpu::Gpu(CudaOptions options) : options_(std::move(options)) {
  const int count = count_gpus();
  if (options_.gpu < 0 || options_.gpu >= count) {
    throw RuntimeError(fmt::format("there is no GPU {}: CUDA sees {}", options_.gpu, count));
  }
  const CurrentGpu current(options_.gpu);
  require(cudaStreamCreateWithFlags(&own_stream_, cudaStreamNonBlocking), "cudaStreamCreate");
}

Gpu::~Gpu() { cudaStreamDestroy(own_stream_); }

cudaStream_t Gpu::stream() const {
  if (!has_callers_stream()) return own_stream_;
  const CurrentGpu current(options_.gpu);
  cudaStream_t stream = options_.stream();
#if CUDART_VERSION >= 12080
  if (is_capturing(stream)) return stream;  // and says nothing of itself
  int gpu = 0;
  require(cudaStreamGetDevice(stream, &gpu), "cudaStreamGetDevice");
  if (gpu != options_.gpu) {
    throw RuntimeError(fmt::format("the stream is one of GPU {}, not of GPU {}", gpu, options_.gpu));
  }
#endif
  return stream;
}

bool Gpu::is_capturing(cudaStream_t stream) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  require(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

std::unique_ptr<Work> Gpu::queued() const {
  cudaStream_t const queue = stream();
  if (is_capturing(queue)) return nullptr;
  const CurrentGpu current(options_.gpu);
  auto event = std::make_unique<StreamEvent>(options_.gpu);
  event->record(queue);
  return event;
}

Buffer Gpu::allocate(std::size_t bytes) const {
  if (bytes == 0) return {};
  const CurrentGpu current(options_.gpu);
  const OutsideGraphs outside;
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    cudaMemGetInfo(&free_bytes, &all_bytes);
    throw RuntimeError(fmt::format("GPU {} has no memory for {} bytes: {} of {} are free", options_.gpu, bytes,
                                   free_bytes, all_bytes));
  }
  require(error, "cudaMalloc");
  return {static_cast<std::byte*>(memory), bytes, std::shared_ptr<void>(memory, [](void* own) { cudaFree(own); })};
}

void Gpu::upload(std::span<const std::byte> from, std::byte* to) const {
  const CurrentGpu current(options_.gpu);
  const OutsideGraphs outside;
  require(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, own_stream_), "cudaMemcpyAsync");
  require(cudaStreamSynchronize(own_stream_), "cudaMemcpyAsync");
}

void Gpu::load(const std::byte* tile, std::span<std::byte> to) const {
  const CurrentGpu current(options_.gpu);
  require(cudaMemcpy(to.data(), tile, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void Gpu::store(std::span<const std::byte> from, std::byte* tile) const {
  const CurrentGpu current(options_.gpu);
  require(cudaMemcpy(tile, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  require(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemcpy");  // it ends when the bytes have left
}

void Gpu::clear(std::span<std::byte> tile) const {
  if (tile.empty()) return;
  const CurrentGpu current(options_.gpu);
  require(cudaMemset(tile.data(), 0, tile.size()), "cudaMemset");
  require(cudaStreamSynchronize(cudaStreamLegacy), "cudaMemset");
}

std::optional<std::int64_t> Gpu::available() const {
  const CurrentGpu current(options_.gpu);
  std::size_t free_bytes = 0;
  std::size_t all_bytes = 0;
  require(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  return static_cast<std::int64_t>(free_bytes);
}

GpuPages& Gpu::pages() const {
  if (pages_ == nullptr) pages_ = std::make_shared<GpuPages>(options_.gpu);
  return *pages_;
}

Buffer Gpu::allocate_pages(std::size_t bytes, Engine::Pages kind) const {
  Buffer memory = pages().reserve(bytes);
  if (kind == Engine::Pages::there && bytes > 0) {
    const auto page = static_cast<std::size_t>(page_bytes());
    pages().take(memory.data(), (bytes + page - 1) / page * page);
  }
  return memory;
}

void Gpu::require_here(const void* tile) const {
  cudaPointerAttributes attributes{};
  require(cudaPointerGetAttributes(&attributes, tile), "cudaPointerGetAttributes");
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
    throw RuntimeError(fmt::format("a tile lies in memory of the host, not of GPU {}", options_.gpu));
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != options_.gpu) {
    throw RuntimeError(fmt::format("a tile lies in memory of GPU {}, not of GPU {}", attributes.device, options_.gpu));
  }
}

void Gpu::combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) const {
  const CurrentGpu current(options_.gpu);
  cudaStream_t const queue = stream();
  for (const PartsToCombine& parts : tiles) {
    require(
        launch_combine(reduce.reduction, reduce.element, parts.rows, parts.row_elements, parts.in, parts.out, queue),
        "the kernel that combines");
  }
}

}  // namespace retile::cuda
