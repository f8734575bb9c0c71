// Tiles of a device one after the other in memory. Devices have large pages: one for each tile would be too many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/schedule/streams.h"
#include "retile/transfer/page_rounds.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// Bytes; joined tiles begin at multiples of it.
constexpr std::int64_t joined_alignment = 256;

// The places of one side's tiles, by device: array by array, in bytes from the beginning of the first.
class JoinedTiles {
 public:
  // Sources for PageUse::last_read, targets for PageUse::first_write.
  JoinedTiles(const TransferPlan& plan, PageUse side);

  std::int64_t offset(std::size_t array, Device device) const {
    return offsets_[array * ends_.size() + static_cast<std::size_t>(device)];
  }
  // Bytes of all tiles of the device.
  std::int64_t bytes(Device device) const { return ends_[static_cast<std::size_t>(device)]; }

 private:
  std::vector<std::int64_t> offsets_;  // by array and device
  std::vector<std::int64_t> ends_;     // by device
};

struct JoinedSides {
  explicit JoinedSides(const TransferPlan& plan)
      : sources(plan, PageUse::last_read), targets(plan, PageUse::first_write) {}

  JoinedTiles sources;
  JoinedTiles targets;
};

// The streams between joined tiles: all that a device has of a side is one tile of one array.
Streams join_tiles(Streams streams, const JoinedSides& sides);

// Where the joined tiles of each of these devices begin, given the first elements of all tiles, array by array and
// device by device; those of empty tiles are not looked at. Null for a device that has none. Throws RuntimeError where
// tiles lie otherwise, or do not begin at a page.
std::vector<const std::byte*> find_joined(const JoinedTiles& joined, std::span<const std::byte* const> tiles,
                                          std::span<const std::int64_t> tile_bytes, std::span<const Device> devices,
                                          std::int64_t page);

struct PageRange {
  const std::byte* first = nullptr;
  std::size_t bytes = 0;
};

// Pages by the round of their run, and in the last entry those of no round. Runs are by tile, from its first page on.
std::vector<std::vector<PageRange>> pages_by_round(const std::vector<std::vector<PageRun>>& runs,
                                                   std::span<const std::byte* const> tiles, std::int64_t rounds,
                                                   std::int64_t page);

}  // namespace retile::transfer
