#include "retile/transfer/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "retile/base/error.h"
#include "retile/transfer/in_place.h"

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

PageMeter::PageMeter(const MadeTiles& tiles, std::size_t devices) : tiles_(tiles), peaks_(devices) { count(); }

void PageMeter::count() {
  std::vector<std::int64_t> pages(peaks_.size());
  for (std::size_t tile = 0; tile < tiles_.source_buffers().size(); ++tile) {
    pages[tile % pages.size()] +=
        resident_pages(tiles_.source_buffers()[tile]) + resident_pages(tiles_.target_buffers()[tile]);
  }
  for (std::size_t i = 0; i < pages.size(); ++i) peaks_[i] = std::max(peaks_[i], pages[i] * page_bytes());
}

}  // namespace retile::transfer
