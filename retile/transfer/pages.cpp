#include "retile/transfer/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>

#include "retile/base/error.h"

namespace retile::transfer {
namespace {

std::int64_t resident_pages(const Buffer& buffer) {
  if (buffer.empty()) return 0;
  const auto pages =
      (buffer.size() + static_cast<std::size_t>(page_bytes()) - 1) / static_cast<std::size_t>(page_bytes());
  std::vector<unsigned char> states(pages);
  // The system only looks.
  void* memory = const_cast<std::byte*>(buffer.data());  // NOLINT(*-const-cast)
  if (mincore(memory, buffer.size(), states.data()) != 0) throw RuntimeError("the system does not count pages");
  return std::count_if(states.begin(), states.end(), [](unsigned char state) { return (state & 1U) != 0; });
}

}  // namespace

Buffer make_page_buffer(std::size_t bytes) {
  if (bytes == 0) return {};
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw RuntimeError(fmt::format("no memory for a tile of {} bytes", bytes));
  madvise(memory, bytes, MADV_NOHUGEPAGE);  // where it is refused, there are none
  return {static_cast<std::byte*>(memory), bytes,
          std::shared_ptr<void>(memory, [bytes](void* mapped) { munmap(mapped, bytes); })};
}

void release(const MadeTiles& tiles, const std::vector<PageRange>& pages) {
  for (const PageRange& range : pages) {
    const std::byte* first = tiles.source_buffers()[range.tile].data() + range.first * page_bytes();
    void* memory = const_cast<std::byte*>(first);  // NOLINT(*-const-cast): donated
    if (madvise(memory, static_cast<std::size_t>(range.count * page_bytes()), MADV_DONTNEED) != 0) {
      throw RuntimeError("the system does not take pages back");
    }
  }
}

PageMeter::PageMeter(const MadeTiles& tiles, std::size_t devices) : tiles_(tiles), devices_(devices) { count(); }

void PageMeter::count() {
  std::vector<std::int64_t> pages(devices_);
  for (std::size_t tile = 0; tile < tiles_.source_buffers().size(); ++tile) {
    pages[tile % devices_] +=
        resident_pages(tiles_.source_buffers()[tile]) + resident_pages(tiles_.target_buffers()[tile]);
  }
  for (const std::int64_t count : pages) peak_ = std::max(peak_, count * page_bytes());
}

}  // namespace retile::transfer
