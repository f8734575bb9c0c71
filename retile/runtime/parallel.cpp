#include "retile/runtime/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace retile::runtime {
namespace {

class ParallelLoop {
 public:
  ParallelLoop(std::size_t count, const std::function<void(std::size_t)>& work)
      : count_(count), work_(work), failed_(count) {}

  // Takes the next piece until there is none. Pieces are taken in order, so that those before a failure have begun.
  void help() {
    for (std::size_t i = next_++; i < failed_; i = next_++) {
      try {
        work_(i);
      } catch (...) {
        keep_failure(i, std::current_exception());
      }
    }
  }

  void rethrow() const {
    if (failed_ < count_) std::rethrow_exception(failure_);
  }

 private:
  void keep_failure(std::size_t piece, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (piece >= failed_) return;
    failed_ = piece;
    failure_ = std::move(failure);
  }

  const std::size_t count_;
  const std::function<void(std::size_t)>& work_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> failed_;  // the first piece that failed; count_ while none has
  std::mutex mutex_;                 // of failure_
  std::exception_ptr failure_;
};

}  // namespace

void for_each_in_parallel(std::size_t count, std::size_t workers, const std::function<void(std::size_t)>& work) {
  ParallelLoop loop(count, work);
  {
    std::vector<std::jthread> helpers;
    try {
      for (std::size_t i = 1; i < std::min(workers, count); ++i) helpers.emplace_back([&loop] { loop.help(); });
    } catch (const std::system_error&) {
      // The system gives no more threads: those that there are do the work.
    }
    loop.help();
  }
  loop.rethrow();
}

}  // namespace retile::runtime
