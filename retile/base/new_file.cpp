#include "retile/base/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "retile/base/error.h"

namespace retile {
namespace {

// The unfinished files, for signal handlers: null where a place is free. A file beyond them is only not removed by a
// signal.
std::array<std::atomic<const char*>, 64> unfinished_files;

void exchange_first(const char* from, const char* to) {
  for (std::atomic<const char*>& file : unfinished_files) {
    const char* expected = from;
    if (file.compare_exchange_strong(expected, to)) return;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  // Whether all that was written arrived, as far as the system says.
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

std::string without_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> target(::realpath(path.c_str(), nullptr), &std::free);
  return target == nullptr ? path : target.get();
}

bool is_link(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

}  // namespace

NewFile::NewFile(std::string path) : path_(std::move(path)), target_(without_links(path_)) {
  struct stat status {};
  const bool is_there = ::stat(target_.c_str(), &status) == 0;
  // A link that is still one leads nowhere yet.
  if ((is_there && !S_ISREG(status.st_mode)) || (!is_there && is_link(target_))) {
    unfinished_ = target_;
    return;
  }
  if (is_there && ::access(target_.c_str(), W_OK) != 0) fail(errno);
  if (is_there) before_ = status;
  create_beside();
}

// The name was free: nobody else's file is written to, whatever links were put there.
void NewFile::create_beside() {
  const std::string folder = target_.substr(0, target_.rfind('/') + 1);
  for (int number = 0;; ++number) {
    unfinished_ = fmt::format("{}.retile-{}-{}", folder, ::getpid(), number);
    const Descriptor file(::open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, before_ ? 0600 : 0666));
    if (file.is_open()) return exchange_first(nullptr, unfinished_.c_str());
    if (errno == EEXIST) continue;
    const int error = std::exchange(errno, 0);
    unfinished_ = target_;
    if (before_ && (error == EACCES || error == EPERM)) return;  // of the folder: the file itself can be written
    fail(error);
  }
}

NewFile::~NewFile() {
  if (unfinished_ != target_) remove_unfinished();
}

void NewFile::remove_unfinished() {
  ::unlink(unfinished_.c_str());
  exchange_first(unfinished_.c_str(), nullptr);
  unfinished_ = target_;
}

void NewFile::finish() {
  if (unfinished_ == target_) return;
  const char* fresh = unfinished_.c_str();
  // A new file has other links, and may not be given to everybody.
  if (before_ && (before_->st_nlink > 1 || ::chown(fresh, before_->st_uid, before_->st_gid) != 0)) {
    copy_over();
    return remove_unfinished();
  }
  if (before_ && ::chmod(fresh, before_->st_mode & 0777U) != 0) fail(errno);
  if (std::rename(fresh, target_.c_str()) != 0) fail(errno);
  exchange_first(fresh, nullptr);
  unfinished_ = target_;
}

// There is room for all bytes: that was checked before.
void NewFile::copy_over() const {
  const Descriptor from(::open(unfinished_.c_str(), O_RDONLY | O_CLOEXEC));
  Descriptor to(::open(target_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!from.is_open() || !to.is_open()) fail(errno);
  std::vector<char> buffer(1U << 20U);
  off_t size = 0;
  for (;;) {
    const ssize_t count = ::read(from.number(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    if (count == 0) break;
    if (!write_all(to.number(), {buffer.data(), static_cast<std::size_t>(count)})) fail(errno);
    size += count;
  }
  if (::ftruncate(to.number(), size) != 0 || !to.close()) fail(errno);
}

void NewFile::fail(int error) const {
  throw RuntimeError(fmt::format("cannot write '{}': {}", path_, std::strerror(error)));
}

void write_file(const std::string& path, std::string_view text) {
  const auto require = [&](bool is_done) {
    if (!is_done) throw RuntimeError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
  };
  NewFile file(path);
  Descriptor out(::open(file.unfinished_path().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  require(out.is_open());
  require(write_all(out.number(), text));
  require(out.close());
  file.finish();
}

void remove_unfinished_files() {
  for (const std::atomic<const char*>& file : unfinished_files) {
    if (const char* path = file.load()) ::unlink(path);
  }
}

}  // namespace retile
