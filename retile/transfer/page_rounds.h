// Rounds that use each page: worked out by stretches of pages that one round uses, page by page only where the parts
// of several rounds lie among each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "retile/memory/buffer.h"
#include "retile/schedule/streams.h"

namespace retile::transfer {

// Consecutive pages that the same round is the last to read, or the first to write.
struct PageRun {
  static constexpr std::int64_t never = -1;

  std::int64_t pages = 0;
  std::int64_t round = never;

  bool operator==(const PageRun&) const = default;
};

enum class PageUse { last_read, first_write };

// The pages of packed tiles, each of which begins at a page.
class PageRounds {
 public:
  // The streams outlive it. Their number of rounds may change between calls. Pages have a power of two of bytes.
  explicit PageRounds(const Streams& streams, std::int64_t page = page_bytes());

  // The device's tiles that streams read or write, by array, from the first page on. No round uses what lies behind.
  using VisitTile = std::function<void(std::size_t array, const std::vector<PageRun>& runs)>;
  void visit_tiles(Device device, PageUse use, const VisitTile& visit);

 private:
  // How a box lies in one of its tiles. A block is a part of the box that touches every page in its span.
  struct Footprint {
    Shape extent;
    Strides strides;
    std::int64_t element_size = 1;
    std::size_t outer = 0;         // dimensions by which blocks differ
    std::int64_t block_bytes = 0;  // of the box
    std::int64_t span = 0;         // from its first byte to its end, in the tile
    bool is_ascending = false;     // later elements lie behind earlier ones

    Footprint(const PieceShape& shape, const Strides& in_tile, std::int64_t page);
    std::int64_t bytes() const;
    std::int64_t place(std::int64_t byte) const;
    // The place of the element, or block, with this number in so many dimensions.
    std::int64_t place(std::int64_t number, std::size_t dimensions) const;
  };
  // Page numbers, the end exclusive.
  struct Pages {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  // The part of a piece that a round moves.
  struct Chunk {
    std::uint32_t array = 0;
    std::uint32_t shape = 0;
    std::int64_t offset = 0;
    ByteRange range;
    std::int64_t round = 0;
    Pages pages;  // none of it lies elsewhere
  };
  // Pages between ends of chunks, and the first and last round of the chunks that may lie there.
  struct Segment {
    Pages pages;
    std::int64_t least = 0;
    std::int64_t most = 0;

    bool is_mixed() const { return least != most; }
  };

  void find_chunks(Device device, PageUse use);
  // The page that a byte of a tile lies in.
  std::int64_t page_of(std::int64_t byte) const { return byte >> page_shift_; }
  Pages pages_of(const Footprint& footprint, std::int64_t offset, ByteRange range) const;
  // visit(pages) for each block, as far as the range goes.
  template <typename Visit>
  void visit_blocks(const Footprint& footprint, std::int64_t offset, ByteRange range, Visit visit) const;
  const std::vector<Pages>& touched(std::span<const Chunk> tile, PageUse use);
  std::vector<Segment> segments_of(std::span<const Chunk> tile) const;
  void look_closely(std::span<const Chunk> tile, const std::vector<Segment>& segments, PageUse use);
  const std::vector<PageRun>& runs_of(std::span<const Chunk> tile, PageUse use);
  const std::vector<Footprint>& footprints(PageUse use) const { return use == PageUse::last_read ? from_ : to_; }

  const Streams& streams_;
  const int page_shift_;         // dividing took half the time of looking
  std::vector<Footprint> from_;  // by shape
  std::vector<Footprint> to_;
  std::vector<Chunk> chunks_;        // of a device
  std::vector<PageRun> runs_;        // of a tile
  std::vector<std::int64_t> close_;  // rounds of the tile's pages, as far as one has looked closely
  // By use, and shapes and offsets of a tile's pieces: equal arrays have the same.
  std::map<std::vector<std::int64_t>, std::vector<Pages>> touched_;
};

}  // namespace retile::transfer
