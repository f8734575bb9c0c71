#include "retile/engines/cuda/cuda_engine.h"

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/cuda/chunk_launch.h"
#include "retile/engines/cuda/gpu.h"
#include "retile/engines/staged_engine.h"
#include "retile/engines/threads/threads.h"

namespace retile::cuda {
namespace {

// The streams round by round, for transfers in place.
class RoundLaunches {
 public:
  RoundLaunches(const std::shared_ptr<const Gpu>& gpu, const Streams& streams) : launch_(list(gpu, streams)) {}

  std::int64_t rounds() const { return static_cast<std::int64_t>(rounds_.size()); }
  void send(const TilePointers& tiles, cudaStream_t stream) { launch_.send(tiles.sources, tiles.targets, stream); }
  void launch(std::int64_t round, cudaStream_t stream) const {
    launch_.launch(rounds_[static_cast<std::size_t>(round)], stream);
  }

 private:
  ChunkLaunch list(const std::shared_ptr<const Gpu>& gpu, const Streams& streams) {
    ChunkLister lister;
    std::vector<StreamCursor> cursors(streams.streams.size());
    for (std::int64_t round = 0; round < streams.rounds; ++round) {
      for (std::size_t i = 0; i < cursors.size(); ++i) {
        const Stream& stream = streams.streams[i];
        cursors[i].advance(
            streams, stream, streams.part_of(stream.bytes, round).size(),
            [&](const StreamPiece& piece, ByteRange range) {
              const auto tile = [&](Device device) {
                return static_cast<std::uint32_t>(std::int64_t{piece.array} * streams.device_count + device);
              };
              lister.add(streams.shapes[piece.shape], range, {tile(stream.from), piece.from_offset},
                         {tile(stream.to), piece.to_offset});
            });
      }
      rounds_.push_back(lister.end_launch());
    }
    return {gpu, lister.take(), streams.array_count * static_cast<std::size_t>(streams.device_count)};
  }

  std::vector<ChunkRange> rounds_;
  ChunkLaunch launch_;
};

// Done when they stand in the stream; in place, when all rounds are through.
class CudaStreams final : public PreparedStreams {
 public:
  CudaStreams(std::shared_ptr<const Gpu> gpu, Streams streams)
      : gpu_(std::move(gpu)),
        streams_(std::move(streams)),
        received_(static_cast<std::size_t>(streams_.device_count)),
        staging_(received_.size()),
        launch_(gpu_, make_chunks(streams_), streams_.array_count * received_.size()),
        launched_(gpu_->number()) {
    for (const Stream& stream : streams_.streams) {
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
  void start_rounds(const TilePointers& tiles, std::span<std::byte>, const RoundDone& done) override {
    if (!rounds_) rounds_.emplace(gpu_, streams_);
    done_ = done;
    round_ = 0;
    rounds_->send(tiles, gpu_->stream());
    launch_round();
  }
  bool advance() override {
    if (is_done()) return false;
    launched_.advance();
    if (!launched_.is_done()) return false;
    done_(round_);
    ++round_;
    if (is_done()) {
      gpu_->pages().release_kept();
    } else {
      launch_round();
    }
    return true;
  }
  bool is_done() const override { return !rounds_ || round_ == rounds_->rounds(); }

 private:
  // Tiles without elements have none.
  void require_here(const std::byte* tile) const {
    if (tile != nullptr) gpu_->require_here(tile);
  }

  void launch_round() {
    const CurrentGpu current(gpu_->number());
    cudaStream_t stream = gpu_->stream();
    rounds_->launch(round_, stream);
    launched_.record(stream);
  }

  const std::shared_ptr<const Gpu> gpu_;
  const Streams streams_;
  std::vector<std::int64_t> received_;
  const std::vector<std::int64_t> staging_;  // nothing
  ChunkLaunch launch_;
  // In place.
  std::optional<RoundLaunches> rounds_;
  RoundDone done_;
  std::int64_t round_ = 0;
  StreamEvent launched_;
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
  void give_back(const std::byte* pages, std::size_t bytes) override { gpu_->pages().give_back(pages, bytes); }
  void take(const std::byte* pages, std::size_t bytes) override { gpu_->pages().take(pages, bytes); }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    host_->for_each(count, task);
  }
  void combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles) override {
    gpu_->combine(reduce, tiles);
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    return std::make_shared<CudaStreams>(gpu_, std::move(streams));
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
