#include "retile/engines/threads/worker_pool.h"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <system_error>

#include "retile/base/error.h"

namespace retile {
namespace {

// About what it takes to wake a thread that sleeps: runs of several stages find their workers awake.
constexpr std::chrono::microseconds longest_spin{30};

}  // namespace

struct WorkerPool::Job {
  std::size_t count;
  const std::function<void(std::size_t)>& task;
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;

  void work() {
    try {
      for (std::size_t i = next++; i < count; i = next++) task(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
};

WorkerPool::WorkerPool(int workers) : may_spin_(static_cast<unsigned>(workers) <= std::thread::hardware_concurrency()) {
  ensure(workers >= 1, "a pool has a worker");
  try {
    for (int i = 1; i < workers; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    stop();
    throw RuntimeError(fmt::format("cannot start {} threads, only {}: {}", workers - 1, started, error.what()));
  }
}

WorkerPool::~WorkerPool() { stop(); }

void WorkerPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ++generation_;
  }
  woken_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::for_each(std::size_t count, const std::function<void(std::size_t)>& task) {
  const std::lock_guard one_job(callers_);
  Job job{count, task, 0, {}, nullptr};
  const bool is_shared = count > 1 && !threads_.empty();
  if (is_shared) {
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
    }
    woken_.notify_all();
  }
  job.work();
  if (is_shared) {
    std::unique_lock lock(mutex_);
    job_ = nullptr;  // who wakes up only now has nothing left to do
    finished_.wait(lock, [this] { return busy_ == 0; });
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

void WorkerPool::work() {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    woken_.wait(lock, [&] { return stopping_ || (job_ != nullptr && generation_ != seen); });
    if (stopping_) return;
    seen = generation_;
    Job& job = *job_;
    ++busy_;
    lock.unlock();
    job.work();
    lock.lock();
    if (--busy_ == 0) finished_.notify_one();
    lock.unlock();
    wait_briefly(seen);
    lock.lock();
  }
}

// Spins until there is another job, but not for long and not on a core that somebody else could use.
void WorkerPool::wait_briefly(std::uint64_t generation) const {
  if (!may_spin_) return;
  const auto end = std::chrono::steady_clock::now() + longest_spin;
  while (generation_ == generation && std::chrono::steady_clock::now() < end) {
  }
}

}  // namespace retile
