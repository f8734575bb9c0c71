#include "retile/engines/threads/threads.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "retile/engines/schedule.h"
#include "retile/engines/threads/copy_tasks.h"
#include "retile/engines/threads/stream_tasks.h"
#include "retile/engines/threads/worker_pool.h"

namespace retile {
namespace {

using Clock = std::chrono::steady_clock;
using Place = KeptPlaces::Place;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What all runs of an engine share.
struct Workers {
  explicit Workers(const ThreadsOptions& options)
      : pool(thread_count(options)), memory_limit(options.memory_limit), listed_bytes(options.listed_bytes) {}

  static int thread_count(const ThreadsOptions& options) {
    return options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  WorkerPool pool;
  std::int64_t memory_limit;
  std::int64_t listed_bytes;
  std::mutex running;  // held by the run that goes
};

template <typename Pointer>
std::vector<Pointer> pointers_to(std::vector<CountedBuffer>& tiles) {
  std::vector<Pointer> pointers;
  for (CountedBuffer& tile : tiles) pointers.push_back(tile.data());
  return pointers;
}

// The memory of runs that keep their tiles: made for the first one, used again by those after it.
struct KeptMemory {
  TileMemory memory;
  std::vector<CountedBuffer> even_scratch;  // by device; empty where no stage needs it
  std::vector<CountedBuffer> odd_scratch;
};

class ThreadsRun final : public PreparedRun {
 public:
  ThreadsRun(std::shared_ptr<Workers> workers, const Movement& movement, std::int64_t element_size,
             const BufferStrides& strides)
      : workers_(std::move(workers)),
        source_(movement.source),
        target_(movement.target()),
        devices_(all_devices(movement.mesh.device_count())),
        element_size_(element_size),
        strides_(require_strides(strides, source_, target_, devices_, element_size)),
        sizes_(stage_sizes(movement)),
        places_(kept_places(sizes_, kept_use(), EngineMemory::Between::in_target)),
        kept_peak_(predict_peak_bytes(movement, element_size, kept_use())),
        donated_peak_(predict_peak_bytes(movement, element_size, TileUse::donated)) {
    std::vector<std::int64_t> received(devices_.size());  // bytes
    std::int64_t room = workers_->listed_bytes;
    for (Stage& stage : make_schedule(movement, element_size, strides_)) {
      stages_.emplace_back(std::move(stage), element_size, workers_->pool.workers(), room);
      room -= stages_.back().listed_bytes();
      std::transform(received.begin(), received.end(), stages_.back().received().begin(), received.begin(),
                     std::plus<>());
    }
    received_max_ = *std::max_element(received.begin(), received.end());
    if (stages_.empty()) {
      const Stage whole(source_, strides_, element_size);
      whole_tiles_.emplace(whole, element_size, workers_->pool.workers(), room);
    }
  }

  EngineStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    require_buffers(sources, targets, devices_);
    const std::lock_guard lock(workers_->running);
    const auto start = Clock::now();
    if (!kept_memory_) kept_memory_ = make_kept_memory();
    if (whole_tiles_) whole_tiles_->run(workers_->pool, sources, targets);
    std::vector<const std::byte*> from(sources.begin(), sources.end());
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const std::vector<std::byte*> to = kept_tiles(places_.places[i + 1], targets);
      stages_[i].run(workers_->pool, from, to);
      from.assign(to.begin(), to.end());
    }
    return {received_max_, kept_peak_, kept_memory_->memory.peak(), seconds_since(start)};
  }

  EngineStatistics execute(Tiles& tiles) override {
    require_tiles(tiles, source_, devices_, element_size_, strides_);
    const std::lock_guard lock(workers_->running);
    const auto start = Clock::now();
    TileMemory memory(devices_.size(), workers_->memory_limit);
    std::vector<CountedBuffer> current;
    for (std::size_t i = 0; i < tiles.size(); ++i) current.push_back(memory.adopt(i, std::move(tiles[i].bytes)));
    std::vector<CountedBuffer> spare(tiles.size());  // what the stage before read
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      std::vector<CountedBuffer> next = donated_tiles(memory, i + 1, spare);
      stages_[i].run(workers_->pool, pointers_to<const std::byte*>(current), pointers_to<std::byte*>(next));
      spare = std::exchange(current, std::move(next));
    }
    for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] = {box_of_tile(target_, devices_[i]), current[i].release()};
    return {received_max_, donated_peak_, memory.peak(), seconds_since(start)};
  }

  void free_scratch() override {
    const std::lock_guard lock(workers_->running);
    kept_memory_.reset();
  }

 private:
  TileUse kept_use() const { return strides_.targets.empty() ? TileUse::kept : TileUse::kept_strided; }

  std::unique_ptr<KeptMemory> make_kept_memory() const {
    auto kept = std::make_unique<KeptMemory>(KeptMemory{TileMemory(devices_.size(), workers_->memory_limit), {}, {}});
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::int64_t ends = sizes_.of(0, devices_[i]) + sizes_.of(sizes_.stops() - 1, devices_[i]);
      const auto scratch = [&](Place kind) { return places_.scratch(kind, sizes_, devices_[i]) * element_size_; };
      kept->memory.add(i, ends * element_size_);
      kept->even_scratch.push_back(kept->memory.allocate(i, scratch(Place::even_scratch)));
      kept->odd_scratch.push_back(kept->memory.allocate(i, scratch(Place::odd_scratch)));
    }
    return kept;
  }

  std::vector<std::byte*> kept_tiles(Place place, std::span<std::byte* const> targets) {
    if (place == Place::target) return {targets.begin(), targets.end()};
    return pointers_to<std::byte*>(place == Place::even_scratch ? kept_memory_->even_scratch
                                                                : kept_memory_->odd_scratch);
  }

  // Memory that is no longer read serves again where it is just as large: a larger one could lift the peak.
  std::vector<CountedBuffer> donated_tiles(TileMemory& memory, std::size_t stop,
                                           std::vector<CountedBuffer>& spare) const {
    std::vector<CountedBuffer> tiles;
    for (std::size_t i = 0; i < spare.size(); ++i) {
      const std::int64_t bytes = sizes_.of(stop, devices_[i]) * element_size_;
      CountedBuffer old = std::move(spare[i]);
      if (old.size() != bytes) old = CountedBuffer();
      tiles.push_back(old.empty() ? memory.allocate(i, bytes) : std::move(old));
    }
    return tiles;
  }

  const std::shared_ptr<Workers> workers_;
  const Placement source_;
  const Placement target_;
  const std::vector<Device> devices_;
  const std::int64_t element_size_;
  const BufferStrides strides_;  // of kept tiles
  const StageSizes sizes_;
  const KeptPlaces places_;
  const std::int64_t kept_peak_;  // predicted bytes
  const std::int64_t donated_peak_;
  std::int64_t received_max_ = 0;
  std::vector<CopyTasks> stages_;
  std::optional<CopyTasks> whole_tiles_;  // where there are no stages, and tiles are kept
  std::unique_ptr<KeptMemory> kept_memory_;
};

class ThreadsStreams final : public PreparedStreams {
 public:
  ThreadsStreams(std::shared_ptr<Workers> workers, Streams streams)
      : workers_(std::move(workers)), tasks_(std::move(streams), workers_->pool.workers()) {}

  StreamStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    const std::lock_guard lock(workers_->running);
    const auto start = Clock::now();
    tasks_.run(workers_->pool, sources, targets);
    return {tasks_.received(), {}, seconds_since(start)};
  }

  StreamStatistics execute_rounds(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                                  const RoundDone& done) override {
    const std::lock_guard lock(workers_->running);
    const auto start = Clock::now();
    tasks_.run_rounds(workers_->pool, sources, targets, done);
    return {tasks_.received(), {}, seconds_since(start)};
  }

 private:
  const std::shared_ptr<Workers> workers_;
  const StreamTasks tasks_;
};

class ThreadsEngine final : public Engine {
 public:
  explicit ThreadsEngine(const ThreadsOptions& options) : workers_(std::make_shared<Workers>(options)) {}

  const char* name() const override { return "threads"; }

  std::vector<Device> devices(std::int64_t device_count) const override { return all_devices(device_count); }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    require_element_size(movement, element_size);
    return std::make_unique<ThreadsRun>(workers_, movement, element_size, strides);
  }

  std::unique_ptr<PreparedStreams> prepare_streams(Streams streams) override {
    return std::make_unique<ThreadsStreams>(workers_, std::move(streams));
  }

 private:
  const std::shared_ptr<Workers> workers_;  // prepared runs outlive the engine
};

}  // namespace

std::unique_ptr<Engine> make_threads_engine(const ThreadsOptions& options) {
  return std::make_unique<ThreadsEngine>(options);
}

}  // namespace retile
