// Files that are read and written at any place, by any thread.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "retile/base/error.h"

namespace retile::files {

class File {
 public:
  enum class Mode { read, create, update, scratch };

  // Throws RuntimeError where it cannot be opened or is no regular file, such as a pipe, which nobody may ever write
  // to. What is created is cut to no bytes; what is updated keeps them, and so does scratch, a temporary file that has
  // a name.
  File(std::string path, Mode mode);
  // A file without a name in this folder, which goes with the object. Throws RuntimeError.
  static File temporary(const std::string& folder);
  // Nothing where there is no such file.
  static std::optional<File> open_if_there(const std::string& path);

  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  std::int64_t size() const;
  // Fills the span. Throws RuntimeError where the file is shorter.
  void read(std::int64_t offset, std::span<std::byte> out) const;
  // Reads bytes that are not read again soon, in rising order: what lies some way before them leaves the page
  // cache from time to time, unless they are few.
  void read_once(std::int64_t offset, std::span<std::byte> out) const;
  // Whether most of the file is in the page cache, by a sample.
  bool is_cached() const;
  // Throws RuntimeError, in the words of a full disk where it is full. Unless the file is temporary, bytes go to the
  // disk and leave the page cache while others are written.
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  // Starts bringing what was written to the disk, and drops from the page cache what is there.
  void start_sync() const;
  // Waits until all that was written is on the disk, and drops it from the page cache. Throws RuntimeError where that
  // fails.
  void sync() const;
  // Drops from the page cache what is on the disk.
  void drop() const;
  // Whether all that was written arrived, as far as the system says; throws RuntimeError where it did not.
  void close();

 private:
  File(std::string path, int number, bool is_temporary)
      : path_(std::move(path)), number_(number), is_temporary_(is_temporary) {}
  void require_regular(const char* action) const;

  std::string path_;
  int number_ = -1;
  bool is_temporary_ = false;
  mutable std::atomic<std::int64_t> read_once_ = 0;  // bytes
  mutable std::atomic<std::int64_t> written_ = 0;    // bytes
};

// The file system that a folder is in.
class Disk {
 public:
  // Throws RuntimeError where the folder cannot be opened.
  explicit Disk(const std::string& folder);
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  Disk(Disk&&) = delete;
  Disk& operator=(Disk&&) = delete;
  ~Disk();

  // Waits until all bytes and all names that were written are on the disk: one wait for any number of files. Throws
  // RuntimeError where writing has failed since the object was made.
  void sync() const;
  // Waits until the names in the folder are there.
  void sync_names() const;

 private:
  std::string folder_;
  int number_ = -1;
};

// A text as JSON can carry it: bytes that are no UTF-8, which names of files may have, are question marks.
std::string utf8_of(const std::string& text);

// The text of a file. Throws InputError where it cannot be read.
std::string read_text(const std::string& path);

// The action's result, where errors of std::filesystem become RuntimeErrors.
template <typename Action>
auto with_named_errors(const char* verb, Action action) {
  try {
    return action();
  } catch (const std::filesystem::filesystem_error& error) {
    throw RuntimeError(fmt::format("cannot {} '{}': {}", verb, error.path1().string(), error.code().message()));
  }
}

// Throws RuntimeError unless the file system of a folder has so many bytes left for this user. `name` is what they are
// for.
void require_free_bytes(const std::string& folder, const std::string& name, std::int64_t needed);

}  // namespace retile::files
