// Transfers in place: what a round has read is given back to the system, page by page, before the next one writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/engines/processes.h"
#include "retile/schedule/streams.h"
#include "retile/transfer/joined_tiles.h"
#include "retile/transfer/page_rounds.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// The memory of a transfer in place, predicted page by page: a source's page is there up to the last round that reads
// it, a target's from the first round that writes it. Tiles are packed, and begin at pages of their own unless they are
// joined. Bytes.
struct InPlaceFigures {
  std::int64_t rounds = 1;
  // By device of this process.
  std::vector<std::int64_t> larger;   // pages of all its sources or of all its targets
  std::vector<std::int64_t> staging;  // in rounds
  std::vector<std::int64_t> peaks;    // pages at once and what is staged
  // Over the devices of all processes:
  std::int64_t peak = 0;
  std::int64_t excess = 0;     // the most beyond the larger of source and target
  std::int64_t least_cap = 0;  // the smallest that works; where the plan's does, no more than that
};

// Figures for as few rounds as keep the plan's cap, each of which fills at most a sixteenth of a device's target;
// where the cap is too small, for those with the least excess. `streams` are those of these devices, ascending; their
// number of rounds is set. `staged` says by stream whether this process stages it (Engine::find_staged). Where
// tiles are joined, the streams are between joined ones. Collective.
InPlaceFigures choose_in_place(const TransferPlan& plan, std::span<const Device> devices, const Processes& processes,
                               Streams& streams, const std::vector<bool>& staged, std::int64_t page = page_bytes(),
                               const JoinedSides* joined = nullptr);
// Figures for all devices in one process.
InPlaceFigures choose_in_place(const TransferPlan& plan);

// Throws MemoryLimitError where the plan's cap is too small in place.
void require_cap(const TransferPlan& plan, const InPlaceFigures& figures);

// Messages of all rounds, as in StreamPlan::messages().
std::int64_t messages_of(const StreamPlan& plan, const InPlaceFigures& figures);

// When pages of sources go: the last rounds that read them, by source tile of this process, array by array and device
// by device.
struct InPlaceSchedule {
  std::int64_t rounds = 1;
  std::vector<std::vector<PageRun>> last_reads;
};

InPlaceSchedule make_schedule(const Streams& streams, std::span<const Device> devices);

// For joined tiles, also when pages of targets come: the first rounds that write them. By device of this process,
// all pages of its tiles.
struct JoinedSchedule {
  std::int64_t rounds = 1;
  std::vector<std::vector<PageRun>> last_reads;
  std::vector<std::vector<PageRun>> first_writes;
};

JoinedSchedule make_schedule(const Streams& streams, const JoinedSides& sides, std::span<const Device> devices,
                             std::int64_t page);

// Memory to give back after each round; the last entry is given back before the first round. `sources` is the donated
// memory, for each tile as much as it takes or more. Pages that are not sources as a whole stay, as the first and
// last one of a tile that does not begin at a page.
std::vector<std::vector<PageRange>> find_released(const InPlaceSchedule& schedule,
                                                  std::span<const std::span<const std::byte>> sources);

}  // namespace retile::transfer
