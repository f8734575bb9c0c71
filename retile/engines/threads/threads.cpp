#include "retile/engines/threads/threads.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "retile/engines/staged_engine.h"
#include "retile/engines/threads/copy_tasks.h"
#include "retile/engines/threads/worker_pool.h"

namespace retile {
namespace {

// What all runs of an engine share.
struct Workers {
  explicit Workers(const ThreadsOptions& threads_options)
      : options(threads_options), pool(thread_count(threads_options)) {}

  static int thread_count(const ThreadsOptions& options) {
    return options.threads > 0 ? options.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  const ThreadsOptions options;
  WorkerPool pool;
  std::mutex running;
};

class ThreadsStreams final : public PreparedStreams {
 public:
  ThreadsStreams(std::shared_ptr<Workers> workers, Streams streams)
      : workers_(std::move(workers)),
        tasks_(std::move(streams), workers_->pool.workers(), workers_->options.listed_bytes) {}

  const std::vector<std::int64_t>& received() const override { return tasks_.received(); }
  const std::vector<std::int64_t>& staging(SourceMemory) override { return staging_; }

  void start(const TilePointers& tiles, SourceMemory, std::span<std::byte>) override {
    tasks_.run(workers_->pool, tiles.sources, tiles.targets);
  }
  void start_rounds(const TilePointers& tiles, std::span<std::byte>, const RoundDone& done) override {
    tasks_.run_rounds(workers_->pool, tiles.sources, tiles.targets, done);
  }
  bool advance() override { return false; }
  bool is_done() const override { return true; }

 private:
  const std::shared_ptr<Workers> workers_;
  const CopyTasks tasks_;
  const std::vector<std::int64_t> staging_ = std::vector<std::int64_t>(tasks_.received().size());  // nothing
};

class ThreadsBackend final : public Backend {
 public:
  explicit ThreadsBackend(const ThreadsOptions& options) : workers_(std::make_shared<Workers>(options)) {}

  const char* name() const override { return "threads"; }
  std::unique_lock<std::mutex> take_turn() override { return std::unique_lock(workers_->running); }
  Progress progress() const override { return Progress::in_a_thread; }

  std::int64_t memory_limit() const override { return workers_->options.memory_limit; }
  std::int64_t listed_bytes() const override { return workers_->options.listed_bytes; }
  Buffer allocate(std::size_t bytes) override { return Buffer(bytes); }
  void give_back(const std::byte* pages, std::size_t bytes) override { give_back_private(pages, bytes); }

  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    workers_->pool.for_each(count, task);
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    return std::make_shared<ThreadsStreams>(workers_, std::move(streams));
  }

 private:
  const std::shared_ptr<Workers> workers_;
};

}  // namespace

std::unique_ptr<Engine> make_threads_engine(const ThreadsOptions& options) {
  return make_staged_engine(std::make_shared<ThreadsBackend>(options));
}

}  // namespace retile
