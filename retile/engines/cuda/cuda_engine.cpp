#include "retile/engines/cuda/cuda_engine.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/cuda/chunks.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/cuda/kernels.h"
#include "retile/engines/staged_run.h"
#include "retile/engines/threads/threads.h"

namespace retile::cuda {
namespace {

// What all runs of an engine share.
struct Gpu final : Backend::DeviceMemory {
  explicit Gpu(const CudaOptions& chosen) : options(chosen) {
    require_gpu(options.gpu);
    const CurrentGpu current(options.gpu);
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Gpu() override { cudaStreamDestroy(stream); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  void load(const std::byte* tile, std::span<std::byte> to) const override {
    require(cudaMemcpy(to.data(), tile, to.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  }
  void store(std::span<const std::byte> from, std::byte* tile) const override {
    require(cudaMemcpy(tile, from.data(), from.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  std::optional<std::int64_t> available() const override {
    const CurrentGpu current(options.gpu);
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    require(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
    return static_cast<std::int64_t>(free_bytes);
  }

  const CudaOptions options;
  cudaStream_t stream = nullptr;
  std::mutex running;
};

// Addresses of tiles in memory of the GPU, looked at and sent again only where they are others.
class TileAddresses {
 public:
  TileAddresses(int gpu, std::size_t count) : gpu_(gpu), sent_(count), device_(allocate(gpu, count * sizeof(void*))) {}

  // Null addresses are those of tiles without elements. Throws RuntimeError where a tile lies elsewhere.
  template <typename Pointer>
  Pointer* send(std::span<const Pointer> tiles, cudaStream_t stream) {
    if (!std::equal(sent_.begin(), sent_.end(), tiles.begin(), tiles.end())) {
      for (const auto* tile : tiles) {
        if (tile != nullptr) require_on_gpu(gpu_, tile);
      }
      sent_.assign(tiles.begin(), tiles.end());
      require(cudaMemcpyAsync(device_.data(), sent_.data(), tiles.size_bytes(), cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
    }
    return reinterpret_cast<Pointer*>(device_.data());
  }

 private:
  const int gpu_;
  std::vector<const void*> sent_;
  Buffer device_;
};

class CudaStreams final : public PreparedStreams {
 public:
  CudaStreams(std::shared_ptr<Gpu> gpu, const Streams& streams)
      : CudaStreams(std::move(gpu), streams, make_chunks(streams)) {}

  ~CudaStreams() override { cudaEventDestroy(copied_); }

  const std::vector<std::int64_t>& received() const override { return received_; }
  const std::vector<std::int64_t>& staging(SourceMemory) override { return staging_; }

  void start(const TilePointers& tiles, SourceMemory, std::span<std::byte>) override {
    const CurrentGpu current(gpu_->options.gpu);
    const std::byte* const* const sources = source_addresses_.send(tiles.sources, gpu_->stream);
    std::byte* const* const targets = target_addresses_.send(tiles.targets, gpu_->stream);
    const ChunkKernel kernel{shapes_.data(), pieces_.data(), chunks_.data(), chunk_count_, is_aligned_};
    require(launch_copies(kernel, sources, targets, gpu_->stream), "the kernel that copies");
    require(cudaEventRecord(copied_, gpu_->stream), "cudaEventRecord");
    is_done_ = false;
  }
  void start_rounds(const TilePointers&, std::span<std::byte>, const RoundDone&) override {
    throw RuntimeError("the cuda engine does not move in place");
  }
  bool advance() override {
    const cudaError_t state = cudaEventQuery(copied_);
    if (state == cudaErrorNotReady) return false;
    require(state, "the kernel that copies");
    is_done_ = true;
    return true;
  }
  bool is_done() const override { return is_done_; }

 private:
  CudaStreams(std::shared_ptr<Gpu> gpu, const Streams& streams, const ChunkTable& table)
      : gpu_(std::move(gpu)),
        received_(static_cast<std::size_t>(streams.device_count)),
        staging_(received_.size()),
        shapes_(gpu_->options.gpu, table.shapes),
        pieces_(gpu_->options.gpu, table.pieces),
        chunks_(gpu_->options.gpu, table.chunks),
        chunk_count_(static_cast<std::uint32_t>(table.chunks.size())),
        is_aligned_(table.is_aligned),
        source_addresses_(gpu_->options.gpu, streams.array_count * received_.size()),
        target_addresses_(gpu_->options.gpu, streams.array_count * received_.size()) {
    const CurrentGpu current(gpu_->options.gpu);
    require(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming), "cudaEventCreate");
    for (const Stream& stream : streams.streams) {
      if (stream.from != stream.to) received_[static_cast<std::size_t>(stream.to)] += stream.bytes;
    }
  }

  const std::shared_ptr<Gpu> gpu_;
  std::vector<std::int64_t> received_;
  const std::vector<std::int64_t> staging_;  // nothing
  const DeviceList<ChunkShape> shapes_;
  const DeviceList<ChunkPiece> pieces_;
  const DeviceList<Chunk> chunks_;
  const std::uint32_t chunk_count_;
  const bool is_aligned_;
  TileAddresses source_addresses_;
  TileAddresses target_addresses_;
  cudaEvent_t copied_ = nullptr;
  bool is_done_ = true;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : gpu_(std::make_shared<Gpu>(options)) {}

  const char* name() const override { return "cuda"; }
  std::unique_lock<std::mutex> take_turn() override { return std::unique_lock(gpu_->running); }
  Progress progress() const override { return Progress::when_advanced; }

  std::int64_t memory_limit() const override { return gpu_->options.memory_limit; }
  std::int64_t listed_bytes() const override { return no_memory_limit; }  // kernels need lists
  Buffer allocate(std::size_t bytes) override { return cuda::allocate(gpu_->options.gpu, bytes); }
  const DeviceMemory* device_memory() const override { return gpu_.get(); }
  void give_back(const std::byte*, std::size_t) override {
    throw RuntimeError("the cuda engine does not move in place");
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    host_->for_each(count, task);
  }
  void combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) override {
    const CurrentGpu current(gpu_->options.gpu);
    for (const PartsToCombine& parts : tiles) {
      require(launch_combine(reduce.reduction, reduce.element, parts.rows, parts.row_elements, parts.in, parts.out,
                             gpu_->stream),
              "the kernel that combines");
    }
    require(cudaStreamSynchronize(gpu_->stream), "the kernel that combines");
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    return std::make_shared<CudaStreams>(gpu_, streams);
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const std::unique_ptr<Engine> host_ = make_threads_engine();  // fills tiles and compares them
};

}  // namespace

std::unique_ptr<Engine> make_cuda_engine(const CudaOptions& options) {
  return make_staged_engine(std::make_shared<CudaBackend>(options));
}

}  // namespace retile::cuda
