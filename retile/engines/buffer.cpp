#include "retile/engines/buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

constexpr std::size_t alignment = 64;  // a cache line, and the widest vector

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size == 0) return;
  const std::size_t padded = (size + alignment - 1) / alignment * alignment;
  void* memory = padded < size ? nullptr : std::aligned_alloc(alignment, padded);
  if (memory == nullptr) throw RuntimeError(fmt::format("no memory for a tile of {} bytes", size));
  data_ = static_cast<std::byte*>(memory);
  owner_ = std::shared_ptr<void>(memory, std::free);
}

Buffer::Buffer(std::byte* data, std::size_t size, std::shared_ptr<void> owner)
    : data_(data), size_(size), owner_(std::move(owner)) {}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  owner_ = std::exchange(other.owner_, nullptr);
  return *this;
}

Buffer::Buffer(const Buffer& other) : Buffer(other.size_) {
  if (size_ != 0) std::memcpy(data_, other.data_, size_);
}

Buffer& Buffer::operator=(const Buffer& other) {
  *this = Buffer(other);
  return *this;
}

bool Buffer::operator==(const Buffer& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

}  // namespace retile
