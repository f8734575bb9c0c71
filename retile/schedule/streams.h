// Streams: what engines move in a stage. All that a device sends another is one stream of pieces, whatever the number
// of arrays.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/copies/copy.h"
#include "retile/memory/tile_layout.h"
#include "retile/schedule/stage.h"
#include "retile/types/mesh.h"

namespace retile {

// How a box lies in two tiles. Pieces are many, and their shapes few.
struct PieceShape {
  Shape extent;
  Strides from;  // bytes
  Strides to;
  std::int64_t element_size = 1;

  std::int64_t bytes() const;
  // Straight from tile to tile.
  BoxCopy copy() const;
  // To and from a buffer whose dimensions are in this order.
  BoxPacking packing(const DimensionOrder& order) const;
  BoxPacking unpacking(const DimensionOrder& order) const;

  bool operator==(const PieceShape&) const = default;
};

// The different shapes among many, numbered in the order in which they come.
class PieceShapes {
 public:
  std::uint32_t number_of(const PieceShape& shape);
  const PieceShape& operator[](std::uint32_t number) const { return shapes_[number]; }
  bool is_empty() const { return shapes_.empty(); }
  std::vector<PieceShape> take() { return std::move(shapes_); }
  // Bytes that the shapes and their copies take, about.
  std::int64_t bytes() const { return static_cast<std::int64_t>(shapes_.size()) * 512; }

 private:
  std::vector<PieceShape> shapes_;
  std::map<std::tuple<Shape, Strides, Strides, std::int64_t>, std::uint32_t> numbers_;
};

// A box of an array, by bytes from its tiles' first elements.
struct StreamPiece {
  std::uint32_t shape = 0;
  std::uint32_t array = 0;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
  std::int64_t position = 0;  // of its first element, see Streams::position_strides
};

// A stream: the pieces that a device sends another device, or itself, one after the other.
struct Stream {
  Device from = 0;
  Device to = 0;
  std::int64_t bytes = 0;
  std::size_t first = 0;  // in Streams::pieces
  std::size_t count = 0;
};

// The part of so many bytes that one of so many rounds takes, cut between units; the first one takes the most. With
// twice as many rounds, two take what one did.
inline ByteRange part_of(std::int64_t bytes, std::int64_t round, std::int64_t rounds, std::int64_t unit = 1) {
  const std::int64_t units = divide_up(bytes, unit);
  return {std::min(bytes, multiply_divide_up(units, round, rounds) * unit),
          std::min(bytes, multiply_divide_up(units, round + 1, rounds) * unit)};
}

struct Streams {
  static constexpr std::int64_t any_rounds = 0;

  std::int64_t device_count = 0;
  std::size_t array_count = 1;
  std::vector<PieceShape> shapes;
  std::vector<StreamPiece> pieces;
  std::vector<Stream> streams;  // that begin or end at devices of this process
  // In how many rounds the streams go, an equal part of each in every round; or any_rounds: as suits the engine.
  std::int64_t rounds = any_rounds;
  std::int64_t rounds_in_flight = 2;
  // Whether tiles lie everywhere as the shapes say. Otherwise only those of this process do.
  bool are_shapes_common = true;
  // By dimension, elements from one to the next in the whole array, with its dimensions in the order of the targets'.
  // Pieces in order of their positions share cache lines. None: all positions are 0.
  Shape position_strides;
  // The stage that the streams are of, if they are of one array's. Its pieces are not listed, and streams are empty, if
  // the lists would take too much memory: then engines ask the stage each time.
  std::shared_ptr<const Stage> stage;
  bool is_listed = true;

  std::span<const StreamPiece> pieces_of(const Stream& stream) const {
    return std::span(pieces).subspan(stream.first, stream.count);
  }
  ByteRange part_of(std::int64_t bytes, std::int64_t round) const { return retile::part_of(bytes, round, rounds); }
  // The pieces that were added since the last stream become one.
  void end_stream(Device from, Device to, std::int64_t bytes);
  // Frees the lists of pieces. There is a stage to ask.
  void drop_lists();
};

// Goes through the pieces of a stream, some bytes at a time.
class StreamCursor {
 public:
  // visit(piece, its bytes) for the next bytes of the stream.
  template <typename Visit>
  void advance(const Streams& streams, const Stream& stream, std::int64_t bytes, Visit visit) {
    while (bytes > 0) {
      const StreamPiece& piece = streams.pieces[stream.first + piece_];
      const std::int64_t whole = streams.shapes[piece.shape].bytes();
      const ByteRange range{done_, std::min(whole, done_ + bytes)};
      visit(piece, range);
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

// Says where the pieces of a stage lie. Shapes are its own: the stage outlives it.
class PiecePlacer {
 public:
  explicit PiecePlacer(const Stage& stage);

  StreamPiece place(const Piece& piece);
  PieceShapes& shapes() { return shapes_; }
  const Shape& position_strides() const { return position_strides_; }

 private:
  // Neighbouring pieces mostly have one of few shapes.
  std::uint32_t find_shape(const Box& box, const Strides& from, const Strides& to);
  StreamPiece place_unevenly(const Piece& piece);
  std::int64_t position_of(const Box& box) const;

  const Stage* stage_;
  Strides packed_from_;  // of tiles without strides of their own, if they are all alike
  Strides packed_to_;
  Shape position_strides_;
  Shape corner_;
  PieceShape shape_;
  PieceShapes shapes_;
  std::uint32_t last_ = 0;
};

// The streams of a stage that begin or end at these devices, ascending. Pieces are listed if their lists take at most
// so many bytes; only those that the filter takes, if there is one.
using PieceFilter = std::function<bool(const Piece&)>;
Streams make_streams(std::shared_ptr<const Stage> stage, std::span<const Device> devices, std::int64_t listed_bytes,
                     const PieceFilter& filter = {});

}  // namespace retile
