#include "retile/engines/cuda/cuda_engine.h"

#include <mutex>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/cuda/chunk_launch.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/staged_run.h"
#include "retile/engines/threads/threads.h"

namespace retile::cuda {
namespace {

// Done when they stand in the stream.
class CudaStreams final : public PreparedStreams {
 public:
  CudaStreams(std::shared_ptr<const Gpu> gpu, const Streams& streams)
      : gpu_(std::move(gpu)),
        received_(static_cast<std::size_t>(streams.device_count)),
        staging_(received_.size()),
        launch_(gpu_, make_chunks(streams), streams.array_count * received_.size()) {
    for (const Stream& stream : streams.streams) {
      if (stream.from != stream.to) received_[static_cast<std::size_t>(stream.to)] += stream.bytes;
    }
  }

  const std::vector<std::int64_t>& received() const override { return received_; }
  const std::vector<std::int64_t>& staging(SourceMemory) override { return staging_; }

  void start(const TilePointers& tiles, SourceMemory, std::span<std::byte>) override {
    if (!launch_.has_tiles(tiles.sources, tiles.targets)) {
      for (const std::byte* tile : tiles.sources) require_here(tile);
      for (const std::byte* tile : tiles.targets) require_here(tile);
    }
    launch_.start(tiles.sources, tiles.targets);
  }
  void start_rounds(const TilePointers&, std::span<std::byte>, const RoundDone&) override {
    throw RuntimeError("the cuda engine does not move in place");
  }
  bool advance() override { return false; }
  bool is_done() const override { return true; }

 private:
  // Tiles without elements have none.
  void require_here(const std::byte* tile) const {
    if (tile != nullptr) gpu_->require_here(tile);
  }

  const std::shared_ptr<const Gpu> gpu_;
  std::vector<std::int64_t> received_;
  const std::vector<std::int64_t> staging_;  // nothing
  ChunkLaunch launch_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options) : gpu_(std::make_shared<Gpu>(options)) {}

  const char* name() const override { return "cuda"; }
  std::unique_lock<std::mutex> take_turn() override { return std::unique_lock(running_); }
  Progress progress() const override { return Progress::when_advanced; }
  std::unique_ptr<Work> queued() override { return gpu_->queued(); }
  bool may_queue_executions() const override { return gpu_->has_callers_stream(); }

  std::int64_t memory_limit() const override { return gpu_->memory_limit(); }
  std::int64_t listed_bytes() const override { return no_memory_limit; }  // kernels need lists
  Buffer allocate(std::size_t bytes) override { return gpu_->allocate(bytes); }
  const DeviceMemory* device_memory() const override { return gpu_.get(); }
  void give_back(const std::byte*, std::size_t) override {
    throw RuntimeError("the cuda engine does not move in place");
  }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    host_->for_each(count, task);
  }
  void combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) override {
    gpu_->combine(reduce, tiles);
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    return std::make_shared<CudaStreams>(gpu_, streams);
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  std::mutex running_;
  const std::unique_ptr<Engine> host_ = make_threads_engine();  // fills tiles and compares them
};

}  // namespace

std::unique_ptr<Engine> make_cuda_engine(const CudaOptions& options) {
  return make_staged_engine(std::make_shared<CudaBackend>(options));
}

}  // namespace retile::cuda
