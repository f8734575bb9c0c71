// Transfers in place: what a round has read is given back to the system, page by page, before the next one writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/engines/streams.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// Bytes; what the system takes back.
std::int64_t page_bytes();

// Neighbouring pages of a source tile.
struct PageRange {
  std::size_t tile = 0;  // array by array, device by device
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// When pages come and go, predicted page by page: a source's is needed up to the last round that reads it, a target's
// from the first round that writes it. Tiles are packed and begin at pages of their own.
struct InPlaceSchedule {
  std::int64_t rounds = 1;
  std::vector<std::vector<PageRange>> released;  // after each round; the last entry: before the first one, never read
  std::vector<std::int64_t> larger;              // by device: bytes of pages, of all its sources or of all its targets
  std::vector<std::int64_t> peaks;               // by device: bytes of pages at once

  // The most that a device has at once beyond the larger of source and target.
  std::int64_t excess() const;
};

// Of all devices, with as many rounds.
struct InPlaceTransfer {
  InPlaceSchedule schedule;
  Streams streams;
};

// The fewest rounds whose excess is within `max_bytes`; where there are none, those with the least.
InPlaceTransfer make_in_place(const TransferPlan& plan, std::int64_t max_bytes);

}  // namespace retile::transfer
