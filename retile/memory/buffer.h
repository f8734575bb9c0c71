// Memory for tiles: aligned for vectors and pages, not written to before its first use, given back when it goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace retile {

class Buffer {
 public:
  Buffer() = default;
  // Room whose bytes are not set. Throws RuntimeError where there is no memory for it.
  explicit Buffer(std::size_t size);
  // Memory of somebody else: destroying `owner` releases it.
  Buffer(std::byte* data, std::size_t size, std::shared_ptr<void> owner);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer& other);
  Buffer& operator=(const Buffer& other);
  ~Buffer() = default;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::byte& operator[](std::size_t index) { return data_[index]; }
  const std::byte& operator[](std::size_t index) const { return data_[index]; }
  std::byte* begin() { return data_; }
  std::byte* end() { return data_ + size_; }
  const std::byte* begin() const { return data_; }
  const std::byte* end() const { return data_ + size_; }

  // True where the bytes are equal.
  bool operator==(const Buffer& other) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<void> owner_;
};

// Bytes of the pages that the system gives and takes back.
std::int64_t page_bytes();

// Private memory in small pages of its own, none of them there before it is touched. Throws RuntimeError where there is
// no memory.
Buffer make_page_buffer(std::size_t size);

}  // namespace retile
