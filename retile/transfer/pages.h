// Memory by pages: buffers whose pages can be given back one by one, and what of them is really there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/engines/buffer.h"
#include "retile/transfer/in_place.h"
#include "retile/transfer/tiles.h"

namespace retile::transfer {

// Private memory of small pages of its own, none of them there before they are touched. Throws RuntimeError where there
// is no memory.
Buffer make_page_buffer(std::size_t bytes);

// Of source tiles: the system has them back at once.
void release(const MadeTiles& tiles, const std::vector<PageRange>& pages);

// Asks the system which pages are in memory.
class PageMeter {
 public:
  // Counts once. The tiles outlive it.
  PageMeter(const MadeTiles& tiles, std::size_t devices);

  void count();
  // Bytes of the device that had the most, over all counts.
  std::int64_t peak() const { return peak_; }

 private:
  const MadeTiles& tiles_;
  const std::size_t devices_;
  std::int64_t peak_ = 0;
};

}  // namespace retile::transfer
