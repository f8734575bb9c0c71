// Copying a box between two tiles as they lie in memory, worked out once and run many times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/types/box.h"

namespace retile {

// A part of a copy: bytes of the box in the order of its ranges, which is row-major between packed tiles.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

enum class Stores {
  cached,     // for data that is read again soon
  streaming,  // around the caches, where runs are long enough: for more data than caches hold
};

// The stores for tiles of which this many bytes are written: more have left the caches before they are read again.
inline Stores stores_for(std::int64_t bytes) { return bytes >= 4 << 20 ? Stores::streaming : Stores::cached; }

// After copies with such stores, before another thread or process reads what they wrote. Waits for the memory: once for
// many copies.
void finish_stores(Stores stores);

// The tiles are pointers to their first elements, aligned in any way.
class BoxCopy {
 public:
  // `box` lies in both tiles' boxes. Throws RuntimeError where a packed tile does not fit in 63 bits.
  BoxCopy(const TileLayout& from, const TileLayout& to, const Box& box, std::int64_t element_size)
      : BoxCopy(from, to, box, element_size, RangeOrder::fast) {}

  std::int64_t bytes() const { return run_bytes_ * run_count_; }
  // Bytes that lie together on both sides, and how many such runs there are.
  std::int64_t run_bytes() const { return run_bytes_; }
  std::int64_t run_count() const { return run_count_; }
  // The place of a run in the tiles, in bytes from their first elements.
  struct RunPlace {
    std::int64_t from = 0;
    std::int64_t to = 0;
  };
  RunPlace run_place(std::int64_t run) const;
  // Whether short runs that follow each other on one side are far apart on the other.
  bool is_transposing() const;

  // The loops over the runs, outermost first, some perhaps of one iteration. Strides are in bytes.
  struct Loop {
    std::int64_t count = 1;
    std::int64_t from_stride = 0;
    std::int64_t to_stride = 0;
  };
  const std::vector<Loop>& loops() const { return loops_; }

  // A box that lies where it is copied to is left alone: tiles may be the inside and the whole of one array.
  void run(const std::byte* from_tile, std::byte* to_tile, Stores stores = Stores::cached) const;
  // Ranges that do not overlap may run at the same time.
  void run(const std::byte* from_tile, std::byte* to_tile, ByteRange range, Stores stores = Stores::cached) const;

  // A length for ranges, at most `about` unless that is below a cache line: ranges of it, one after the other from 0,
  // begin where loops of the copy do.
  std::int64_t range_length(std::int64_t about) const;

 private:
  friend class BoxPacking;

  // Where an iteration of a loop starts. Offsets may lie before the memory: a piece of a packed box starts in the
  // middle.
  struct Place {
    const std::byte* from;
    std::byte* to;
    std::int64_t from_offset;
    std::int64_t to_offset;

    Place at(const Loop& loop, std::int64_t index) const {
      return {from, to, from_offset + index * loop.from_stride, to_offset + index * loop.to_stride};
    }
  };

  // The order of ranges: the fastest one, or that of the elements in the tile that is written or read.
  enum class RangeOrder { fast, of_target, of_source };
  BoxCopy(const TileLayout& from, const TileLayout& to, const Box& box, std::int64_t element_size, RangeOrder order);

  void add_loop(const Loop& loop);
  // Whether the box has the same strides in both tiles.
  bool lies_alike() const;
  bool transposes(const Loop& outer, const Loop& inner) const;
  void copy_range(const Place& place, ByteRange range, Stores stores) const;
  void copy_part(std::size_t level, const Place& place, ByteRange range, Stores stores) const;
  void copy_whole(std::size_t level, const Place& place, std::int64_t count, Stores stores) const;
  bool are_whole(std::int64_t unit, const std::byte* to, const Loop& outer, const Loop& inner) const;
  bool streams_words(const std::byte* to, const Loop& outer, const Loop& inner) const;
  void copy_runs(const Place& place, const Loop& outer, const Loop& inner, Stores stores) const;
  template <typename CopyRun>
  void copy_each(const Place& place, const Loop& outer, const Loop& inner, CopyRun copy_run) const;
  template <typename CopyRun>
  void copy_transposed(const Place& place, const Loop& outer, const Loop& inner, Stores stores, CopyRun copy_run) const;

  std::vector<Loop> loops_;               // outermost first, at least two
  std::vector<std::int64_t> slab_bytes_;  // of one iteration of each loop
  std::int64_t run_bytes_ = 0;
  std::int64_t run_count_ = 1;
  std::int64_t from_offset_ = 0;
  std::int64_t to_offset_ = 0;
};

// A box of a tile to and from a contiguous buffer, piece by piece: a piece is the memory of a range. The buffer's
// dimensions are in an order that both its ends know.
class BoxPacking {
 public:
  BoxPacking(const TileLayout& tile, const Box& box, std::int64_t element_size, const DimensionOrder& order);

  std::int64_t bytes() const { return pack_.bytes(); }
  // Whether the box lies in the tile as in the buffer, and where it then starts: bytes from the tile's first element.
  bool is_contiguous() const { return pack_.run_count() == 1; }
  std::int64_t offset() const { return pack_.from_offset_; }

  void pack(const std::byte* tile, ByteRange range, std::byte* piece) const;
  void unpack(const std::byte* piece, ByteRange range, std::byte* tile, Stores stores = Stores::cached) const;

 private:
  BoxCopy pack_;
  BoxCopy unpack_;
};

}  // namespace retile
