#include "retile/files/pending_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "retile/base/error.h"

namespace retile::files {
namespace {

// From which on files are named: what a run that is killed writes again.
constexpr std::size_t most_files = 1 << 10;
constexpr std::int64_t most_bytes = 1 << 26;
constexpr std::int64_t most_lacking = 3 * most_bytes;  // that the disk may lack before writers wait for it
// From which on, on average, files are waited for one by one. To wait for the disk is one call for any number of
// files, but waits for all that others write to it as well, an intermediate array of ours among them.
constexpr std::int64_t large_file = 1 << 18;

std::int64_t sum_of_bytes(const auto& files) {
  return std::accumulate(files.begin(), files.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& file) { return sum + file.bytes; });
}

}  // namespace

// Its stack is small: where data is limited, stacks count as if they were full.
PendingFiles::PendingFiles(const std::string& folder) : disk_(folder) {
  constexpr std::size_t stack_bytes = 1 << 20;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  const auto start = [](void* self) -> void* {
    static_cast<PendingFiles*>(self)->run();
    return nullptr;
  };
  const int error = pthread_create(&thread_, &attributes, start, this);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw RuntimeError(fmt::format("cannot start a thread: {}", std::strerror(error)));
  is_running_ = true;
}

void PendingFiles::name_all(const std::vector<Pending>& files) const {
  const bool are_large = sum_of_bytes(files) / static_cast<std::int64_t>(files.size()) >= large_file;
  if (!are_large) disk_.sync();
  for (const Pending& pending : files) {
    const File file(pending.path, File::Mode::read);
    if (are_large) file.sync();
    if (std::rename(pending.path.c_str(), pending.name.c_str()) != 0) {
      throw RuntimeError(fmt::format("cannot write '{}': {}", pending.name, std::strerror(errno)));
    }
    file.drop();
  }
}

std::vector<PendingFiles::Pending> PendingFiles::take_batch() {
  std::vector<Pending> batch;
  std::int64_t bytes = 0;
  std::unique_lock lock(mutex_);
  while (batch.size() < most_files && bytes < most_bytes) {
    came_.wait(lock, [&] { return is_over_ || !files_.empty(); });
    if (files_.empty()) return batch;
    const std::vector<Pending> come = std::exchange(files_, {});
    lock.unlock();
    for (const Pending& pending : come) File(pending.path, File::Mode::read).start_sync();
    bytes += sum_of_bytes(come);
    batch.insert(batch.end(), come.begin(), come.end());
    lock.lock();
  }
  return batch;
}

void PendingFiles::run() {
  try {
    for (;;) {
      const std::vector<Pending> batch = take_batch();
      if (batch.empty()) return;
      name_all(batch);
      const std::lock_guard lock(mutex_);
      lacks_bytes_ -= sum_of_bytes(batch);
      named_.notify_all();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    named_.notify_all();
  }
}

void PendingFiles::add(const File& file, std::string name) {
  const std::int64_t bytes = file.size();
  std::unique_lock lock(mutex_);
  named_.wait(lock, [&] { return failure_ != nullptr || lacks_bytes_ < most_lacking; });
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  files_.push_back({file.path(), std::move(name), bytes});
  lacks_bytes_ += bytes;
  came_.notify_one();
}

void PendingFiles::finish() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    came_.notify_one();
  }
  if (std::exchange(is_running_, false)) pthread_join(thread_, nullptr);
  if (failure_ != nullptr) std::rethrow_exception(failure_);
}

PendingFiles::~PendingFiles() {
  try {
    finish();
  } catch (const RuntimeError&) {  // they are written again
  }
}

}  // namespace retile::files
