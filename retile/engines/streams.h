// Streams: many boxes of many arrays moved at once. All that a device sends another is one stream of pieces, whatever
// the number of arrays, and a round takes an equal part of every stream.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/engines/copy.h"
#include "retile/engines/tile_layout.h"
#include "retile/types/mesh.h"

namespace retile {

// How a box lies in two tiles. Pieces are many, and their shapes few.
struct PieceShape {
  Shape extent;
  Strides from;  // bytes
  Strides to;
  std::int64_t element_size = 1;

  std::int64_t bytes() const;
  // Straight from tile to tile, and to or from a buffer in row-major order.
  BoxCopy copy() const;
  BoxPacking packing() const;
  BoxPacking unpacking() const;

  bool operator==(const PieceShape&) const = default;
};

// A box of an array, by bytes from its tiles' first elements.
struct StreamPiece {
  std::uint32_t shape = 0;
  std::uint32_t array = 0;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};

// What a device sends another, or itself.
struct Stream {
  Device from = 0;
  Device to = 0;
  std::int64_t bytes = 0;
  std::vector<StreamPiece> pieces;  // in an order that both devices know
};

struct Streams {
  std::int64_t device_count = 0;
  std::size_t array_count = 0;
  std::vector<PieceShape> shapes;
  std::vector<Stream> streams;  // that begin or end at devices of this process; by sender, then receiver
  std::int64_t rounds = 1;
  std::int64_t rounds_in_flight = 1;
  // Whether tiles lie everywhere as the shapes say. Otherwise only those of this process do.
  bool are_shapes_common = true;

  // The part of a stream that a round takes; the first one takes the most. With twice as many rounds, two take what one
  // did.
  ByteRange part_of(std::int64_t bytes, std::int64_t round) const {
    return {multiply_divide_up(bytes, round, rounds), multiply_divide_up(bytes, round + 1, rounds)};
  }
};

// Goes through the pieces of a stream, some bytes at a time.
class StreamCursor {
 public:
  // visit(index of the piece, its bytes) for the next bytes of the stream.
  template <typename Visit>
  void advance(const Streams& streams, const Stream& stream, std::int64_t bytes, Visit visit) {
    while (bytes > 0) {
      const std::int64_t whole = streams.shapes[stream.pieces[piece_].shape].bytes();
      const ByteRange range{done_, std::min(whole, done_ + bytes)};
      visit(piece_, range);
      bytes -= range.size();
      done_ = range.end;
      if (done_ < whole) continue;
      ++piece_;
      done_ = 0;
    }
  }

 private:
  std::size_t piece_ = 0;
  std::int64_t done_ = 0;  // bytes of it
};

// Called after a round, when nothing of it is read any more and before anything of the next one is written.
using RoundDone = std::function<void(std::int64_t round)>;

// Of one execution.
struct StreamStatistics {
  std::vector<std::int64_t> received;  // bytes by device of this process, own pieces not counted
  std::vector<std::int64_t> staging;   // bytes by device of this process; none: nothing was staged
  double seconds = 0;                  // from the first process's start to the last one's end
};

// Streams worked out for an engine: made once, run many times. With several processes every call is collective.
class PreparedStreams {
 public:
  PreparedStreams() = default;
  PreparedStreams(const PreparedStreams&) = delete;
  PreparedStreams& operator=(const PreparedStreams&) = delete;
  virtual ~PreparedStreams() = default;

  // Pointers to the first elements of tiles: array by array, those of this process's devices in ascending order. Those
  // of tiles without elements are not looked at. No target overlaps anything.
  virtual StreamStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) = 0;

  // Round by round, between packed tiles. Throws RuntimeError where the engine does not tell rounds apart.
  virtual StreamStatistics execute_rounds(std::span<const std::byte* const> sources,
                                          std::span<std::byte* const> targets, const RoundDone& done);

  // Whole pages of a source: the system has them back at once. Throws RuntimeError where it does not take them.
  virtual void give_back(const std::byte* pages, std::size_t bytes);

  // Executions keep their staging for the next one. This frees it, until there is one.
  virtual void free_staging() {}
};

}  // namespace retile
