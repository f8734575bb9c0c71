#include "retile/files/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/utf8.h"
#include "retile/memory/buffer.h"
#include "retile/plan/text.h"

namespace retile::files {
namespace {

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  throw RuntimeError(fmt::format("cannot {} '{}': {}", action, path, std::strerror(error)));
}

constexpr std::size_t large_read = 1 << 16;   // bytes: pages of shorter reads are wanted again for what is beside
constexpr std::int64_t cache_step = 1 << 25;  // bytes that are read or written before the page cache is looked after

// Adds to a count of bytes. True once for every step.
bool passes_step(std::atomic<std::int64_t>& count, std::size_t more) {
  const std::int64_t before = count.fetch_add(static_cast<std::int64_t>(more));
  return (before + static_cast<std::int64_t>(more)) / cache_step != before / cache_step;
}

constexpr int reading = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // opening a pipe does not wait for somebody to write to it

}  // namespace

File::File(std::string path, Mode mode) : path_(std::move(path)), is_temporary_(mode == Mode::scratch) {
  const bool reads = mode == Mode::read;
  const int cut = mode == Mode::create ? O_TRUNC : 0;
  const char* action = reads ? "read" : "write";
  number_ = ::open(path_.c_str(), reads ? reading : O_RDWR | O_CREAT | O_CLOEXEC | cut, 0666);
  if (number_ < 0) fail(action, path_, errno);
  require_regular(action);
}

void File::require_regular(const char* action) const {
  struct stat status {};
  if (::fstat(number_, &status) != 0) fail(action, path_, errno);
  if (!S_ISREG(status.st_mode)) throw RuntimeError(fmt::format("cannot {} '{}': it is no file", action, path_));
}

File File::temporary(const std::string& folder) {
  std::string path = folder + "/.retile-XXXXXX";
  const int number = ::mkostemp(path.data(), O_CLOEXEC);
  if (number < 0) fail("write to", folder, errno);
  ::unlink(path.c_str());
  return {path, number, true};
}

std::optional<File> File::open_if_there(const std::string& path) {
  const int number = ::open(path.c_str(), reading);
  if (number >= 0) {
    File file(path, number, false);
    file.require_regular("read");
    return file;
  }
  if (errno != ENOENT && errno != ENOTDIR) fail("read", path, errno);
  return std::nullopt;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      number_(std::exchange(other.number_, -1)),
      is_temporary_(other.is_temporary_),
      read_once_(other.read_once_.load()),
      written_(other.written_.load()) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(number_, other.number_);
  std::swap(is_temporary_, other.is_temporary_);
  read_once_ = other.read_once_.exchange(read_once_);
  written_ = other.written_.exchange(written_);
  return *this;
}

File::~File() {
  if (number_ >= 0) ::close(number_);
}

std::int64_t File::size() const {
  struct stat status {};
  if (::fstat(number_, &status) != 0) fail("read", path_, errno);
  return status.st_size;
}

void File::read(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(number_, out.data(), out.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path_, errno);
    if (count == 0) throw RuntimeError(fmt::format("'{}' is damaged: it ends after {} bytes", path_, size()));
    out = out.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

// Where the system does not say, it counts as if it were.
bool File::is_cached() const {
  const std::int64_t page = page_bytes();
  const std::int64_t pages = divide_up(size(), page);
  if (pages == 0) return true;
  const auto length = static_cast<std::size_t>(pages * page);
  void* const map = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, number_, 0);
  if (map == MAP_FAILED) return true;
  const std::int64_t samples = std::min<std::int64_t>(pages, 64);
  std::int64_t absent = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    unsigned char flags = 1;
    ::mincore(static_cast<std::byte*>(map) + i * pages / samples * page, static_cast<std::size_t>(page), &flags);
    absent += (flags & 1U) == 0 ? 1 : 0;
  }
  ::munmap(map, length);
  return 2 * absent < samples;
}

void File::read_once(std::int64_t offset, std::span<std::byte> out) const {
  read(offset, out);
  if (out.size() < large_read || !passes_step(read_once_, out.size())) return;
  // Other threads may be a little behind.
  const std::int64_t end = offset - cache_step;
  if (end > 0) ::posix_fadvise(number_, 0, end, POSIX_FADV_DONTNEED);
}

void File::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  const bool is_due = passes_step(written_, bytes.size());
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(number_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
  if (is_due && !is_temporary_) start_sync();
}

// Failures are found by sync().
void File::start_sync() const {
  ::sync_file_range(number_, 0, 0, SYNC_FILE_RANGE_WRITE);
  drop();
}

void File::sync() const {
  if (::fdatasync(number_) != 0) fail("write", path_, errno);
  drop();
}

void File::drop() const { ::posix_fadvise(number_, 0, 0, POSIX_FADV_DONTNEED); }

void File::close() {
  if (::close(std::exchange(number_, -1)) != 0) fail("write", path_, errno);
}

Disk::Disk(const std::string& folder)
    : folder_(folder), number_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (number_ < 0) fail("write to", folder_, errno);
}

Disk::~Disk() { ::close(number_); }

void Disk::sync() const {
  if (::syncfs(number_) != 0) fail("write to", folder_, errno);
}

// Some file systems have no such call.
void Disk::sync_names() const {
  if (::fsync(number_) != 0 && errno != EINVAL) fail("write to", folder_, errno);
}

std::string utf8_of(const std::string& text) { return fmt::format("{}", fmt::join(split_characters(text), "")); }

std::string read_text(const std::string& path) {
  try {
    const File file(path, File::Mode::read);
    std::string text(static_cast<std::size_t>(file.size()), ' ');
    file.read(0, std::as_writable_bytes(std::span(text)));
    return text;
  } catch (const RuntimeError& error) {
    throw InputError(error.what(), {});
  }
}

void require_free_bytes(const std::string& folder, const std::string& name, std::int64_t needed) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail("write to", folder, errno);
  const auto there = static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
  if (needed <= there) return;
  throw RuntimeError(fmt::format("the disk of '{}' has {} bytes left, and {} are needed: {} are missing", name,
                                 group_digits(there), group_digits(needed), group_digits(needed - there)));
}

}  // namespace retile::files
