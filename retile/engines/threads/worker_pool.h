// Threads that share out tasks, and sleep in between.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace retile {

class WorkerPool {
 public:
  // The caller of for_each() is one of the workers. Throws RuntimeError where the system has not so many threads.
  explicit WorkerPool(int workers);
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  int workers() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls task(i) for every i below `count`, begun in this order, each by a worker that is free; returns when all are
  // done. The first exception is thrown here, and tasks that have not begun by then are left out. Callers wait for each
  // other; a task must not call this.
  void for_each(std::size_t count, const std::function<void(std::size_t)>& task);

 private:
  struct Job;

  void work();
  void wait_briefly(std::uint64_t generation) const;
  void stop();

  std::mutex callers_;  // held by the caller whose job it is
  std::mutex mutex_;    // guards what follows
  std::condition_variable woken_;
  std::condition_variable finished_;
  Job* job_ = nullptr;  // that workers may join
  int busy_ = 0;        // workers in a job, its caller not counted
  bool stopping_ = false;
  std::atomic<std::uint64_t> generation_ = 0;  // counts jobs; written under the mutex
  bool may_spin_;                              // there is a core for every worker
  std::vector<std::thread> threads_;
};

}  // namespace retile
