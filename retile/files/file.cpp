#include "retile/files/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

namespace retile::files {
namespace {

[[noreturn]] void fail(const char* action, const std::string& path, int error) {
  throw RuntimeError(fmt::format("cannot {} '{}': {}", action, path, std::strerror(error)));
}

}  // namespace

File::File(std::string path, Mode mode) : path_(std::move(path)) {
  const bool reads = mode == Mode::read;
  const int cut = mode == Mode::create ? O_TRUNC : 0;
  number_ = ::open(path_.c_str(), reads ? O_RDONLY | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC | cut, 0666);
  if (number_ < 0) fail(reads ? "read" : "write", path_, errno);
}

File File::temporary(const std::string& folder) {
  std::string path = folder + "/.retile-XXXXXX";
  const int number = ::mkostemp(path.data(), O_CLOEXEC);
  if (number < 0) fail("write to", folder, errno);
  ::unlink(path.c_str());
  return {path, number};
}

std::optional<File> File::open_if_there(const std::string& path) {
  const int number = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (number >= 0) return File(path, number);
  if (errno != ENOENT && errno != ENOTDIR) fail("read", path, errno);
  return std::nullopt;
}

File::File(File&& other) noexcept : path_(std::move(other.path_)), number_(std::exchange(other.number_, -1)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(number_, other.number_);
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

void File::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(number_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write", path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void File::close() {
  if (::close(std::exchange(number_, -1)) != 0) fail("write", path_, errno);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw InputError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)), {});
  return text;
}

std::int64_t free_bytes(const std::string& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0) fail("write to", folder, errno);
  return static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
}

}  // namespace retile::files
