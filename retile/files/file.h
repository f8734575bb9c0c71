// Files that are read and written at any place, by any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace retile::files {

class File {
 public:
  enum class Mode { read, create, update };

  // Throws RuntimeError where it cannot be opened. What is created is cut to no bytes; what is updated keeps them.
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
  // Throws RuntimeError, in the words of a full disk where it is full.
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  // Whether all that was written arrived, as far as the system says; throws RuntimeError where it did not.
  void close();

 private:
  File(std::string path, int number) : path_(std::move(path)), number_(number) {}

  std::string path_;
  int number_ = -1;
};

// The text of a file. Throws InputError where it cannot be read.
std::string read_text(const std::string& path);

// Bytes that the file system of a folder has left for this user.
std::int64_t free_bytes(const std::string& folder);

}  // namespace retile::files
