#include "retile/files/pending_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "retile/base/error.h"

namespace retile::files {
namespace {

// From which on files are named: what a run that is killed writes again.
constexpr std::size_t most_files = 1 << 10;
constexpr std::int64_t most_bytes = 1 << 26;

}  // namespace

void PendingFiles::name_all(const std::vector<Pending>& files) const {
  if (files.empty()) return;
  disk_.sync();
  for (const Pending& pending : files) {
    if (std::rename(pending.path.c_str(), pending.name.c_str()) != 0) {
      throw RuntimeError(fmt::format("cannot write '{}': {}", pending.name, std::strerror(errno)));
    }
    File(pending.name, File::Mode::read).drop();
  }
}

void PendingFiles::add(const File& file, std::string name) {
  file.start_sync();
  const std::int64_t bytes = file.size();
  std::vector<Pending> due;
  {
    const std::lock_guard lock(mutex_);
    files_.push_back({file.path(), std::move(name)});
    bytes_ += bytes;
    if (files_.size() < most_files && bytes_ < most_bytes) return;
    due = std::exchange(files_, {});
    bytes_ = 0;
  }
  name_all(due);
}

void PendingFiles::finish() {
  const std::lock_guard lock(mutex_);
  bytes_ = 0;
  name_all(std::exchange(files_, {}));
}

PendingFiles::~PendingFiles() {
  try {
    finish();
  } catch (const RuntimeError&) {  // they are written again
  }
}

}  // namespace retile::files
