// Transfers in place: what a round has read is given back to the system, page by page, before the next one writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/engines/processes.h"
#include "retile/engines/streams.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// Bytes; what the system takes back.
std::int64_t page_bytes();

// When pages come and go, predicted page by page: a source's is needed up to the last round that reads it, a target's
// from the first round that writes it. Tiles are packed and begin at pages of their own.
struct InPlaceSchedule {
  static constexpr std::int64_t never = -1;

  std::int64_t rounds = 1;
  // The last round that reads a page, by source tile of this process, array by array and device by device, and page.
  std::vector<std::vector<std::int64_t>> last_reads;
  std::vector<std::int64_t> larger;  // by device: bytes of pages, of all its sources or of all its targets
  std::vector<std::int64_t> peaks;   // by device: bytes of pages at once, and of what is staged between processes

  // The most that a device has at once, and that beyond the larger of source and target.
  std::int64_t peak() const;
  std::int64_t excess() const;
};

// Of all processes.
struct InPlaceFigures {
  std::int64_t rounds = 1;
  std::int64_t peak = 0;
  std::int64_t excess = 0;
};
// Collective.
InPlaceFigures figures_of(const InPlaceSchedule& schedule, const Processes& processes = one_process());

// Of this process's devices, ascending, with as many rounds.
struct InPlaceTransfer {
  InPlaceSchedule schedule;
  Streams streams;
};

// The fewest rounds whose excess is within the plan's cap on all processes; where there are none, those with the least.
// Collective.
InPlaceTransfer make_in_place(const TransferPlan& plan, std::span<const Device> devices, const Processes& processes);
// Of all devices in one process.
InPlaceTransfer make_in_place(const TransferPlan& plan);

struct PageRange {
  const std::byte* first = nullptr;
  std::size_t bytes = 0;
};

// What goes back after each round, and in the last entry what does before the first one. `sources` is the memory that
// was donated, for each tile as much as it takes or more. Pages that are not sources as a whole stay, as the first and
// last one of a tile that does not begin at a page.
std::vector<std::vector<PageRange>> find_released(const InPlaceSchedule& schedule,
                                                  std::span<const std::span<const std::byte>> sources);

}  // namespace retile::transfer
