// Memory by pages: what of it is really there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/transfer/tiles.h"

namespace retile::transfer {

// Asks the system which pages are in memory.
class PageMeter {
 public:
  // Counts once. The tiles outlive it.
  PageMeter(const MadeTiles& tiles, std::size_t devices);

  void count();
  // Bytes by device, the most of all counts.
  const std::vector<std::int64_t>& peaks() const { return peaks_; }

 private:
  const MadeTiles& tiles_;
  std::vector<std::int64_t> peaks_;
};

}  // namespace retile::transfer
