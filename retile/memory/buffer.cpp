#include "retile/memory/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

constexpr std::size_t cache_line = 64;  // bytes; also the widest vector
constexpr std::size_t huge_page = 2 << 20;

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

// Large buffers are faster in huge pages, where the system has them. Only pages that lie inside are asked for, so that
// no more memory is used.
void ask_for_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t size) {
#ifdef MADV_HUGEPAGE
  madvise(memory, size / huge_page * huge_page, MADV_HUGEPAGE);  // where it is refused, pages are small
#endif
}

}  // namespace

Buffer::Buffer(std::size_t size) : size_(size) {
  if (size == 0) return;
  const bool is_large = size >= 4 * huge_page;
  const std::size_t alignment = is_large ? huge_page : cache_line;
  const std::size_t padded = round_up(size, alignment);
  void* memory = padded < size ? nullptr : std::aligned_alloc(alignment, padded);
  if (memory == nullptr) throw RuntimeError(fmt::format("no memory for a tile of {} bytes", size));
  if (is_large) ask_for_huge_pages(memory, size);
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

bool Buffer::operator==(const Buffer& other) const {
  return size_ == other.size_ && (size_ == 0 || std::memcmp(data_, other.data_, size_) == 0);
}

std::int64_t page_bytes() {
  static const std::int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

Buffer make_page_buffer(std::size_t size) {
  if (size == 0) return {};
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw RuntimeError(fmt::format("no memory for a tile of {} bytes", size));
  madvise(memory, size, MADV_NOHUGEPAGE);  // where it is refused, there are none
  return {static_cast<std::byte*>(memory), size,
          std::shared_ptr<void>(memory, [size](void* mapped) { munmap(mapped, size); })};
}

}  // namespace retile
