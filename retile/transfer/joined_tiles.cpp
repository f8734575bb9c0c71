#include "retile/transfer/joined_tiles.h"

#include <fmt/format.h>

#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile::transfer {

JoinedTiles::JoinedTiles(const TransferPlan& plan, PageUse side)
    : ends_(static_cast<std::size_t>(plan.device_count())) {
  for (const NamedArray& array : plan.manifest().arrays) {
    const Placement& tiles = side == PageUse::last_read ? plan.source(array.problem) : plan.target(array.problem);
    const std::int64_t element = bytes_of(plan.manifest().problems[array.problem].element_type());
    for (std::size_t device = 0; device < ends_.size(); ++device) {
      offsets_.push_back(ends_[device]);
      const std::int64_t bytes = tiles.size(static_cast<Device>(device)) * element;
      ends_[device] += divide_up(bytes, joined_alignment) * joined_alignment;
    }
  }
}

Streams join_tiles(Streams streams, const JoinedSides& sides) {
  for (const Stream& stream : streams.streams) {
    for (std::size_t i = stream.first; i < stream.first + stream.count; ++i) {
      StreamPiece& piece = streams.pieces[i];
      piece.from_offset += sides.sources.offset(piece.array, stream.from);
      piece.to_offset += sides.targets.offset(piece.array, stream.to);
      piece.array = 0;
    }
  }
  streams.array_count = 1;
  return streams;
}

std::vector<const std::byte*> find_joined(const JoinedTiles& joined, std::span<const std::byte* const> tiles,
                                          std::span<const std::int64_t> tile_bytes, std::span<const Device> devices,
                                          std::int64_t page) {
  std::vector<const std::byte*> found(devices.size());
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    if (tile_bytes[tile] == 0) continue;
    const std::size_t slot = tile % devices.size();
    const std::byte* const first = tiles[tile] - joined.offset(tile / devices.size(), devices[slot]);
    if (found[slot] == nullptr) found[slot] = first;
    const bool begins_at_page = reinterpret_cast<std::uintptr_t>(first) % static_cast<std::uintptr_t>(page) == 0;
    if (found[slot] == first && begins_at_page) continue;
    throw RuntimeError(
        fmt::format("in place, tiles of device {} do not lie one after the other, each from a multiple of {} bytes on, "
                    "from a page of {} bytes on",
                    devices[slot], joined_alignment, page));
  }
  return found;
}

std::vector<std::vector<PageRange>> pages_by_round(const std::vector<std::vector<PageRun>>& runs,
                                                   std::span<const std::byte* const> tiles, std::int64_t rounds,
                                                   std::int64_t page) {
  std::vector<std::vector<PageRange>> pages(static_cast<std::size_t>(rounds) + 1);
  for (std::size_t tile = 0; tile < runs.size(); ++tile) {
    const std::byte* at = tiles[tile];
    for (const PageRun& run : runs[tile]) {
      const auto bytes = static_cast<std::size_t>(run.pages * page);
      pages[static_cast<std::size_t>(run.round == PageRun::never ? rounds : run.round)].push_back({at, bytes});
      at += bytes;
    }
  }
  return pages;
}

}  // namespace retile::transfer
