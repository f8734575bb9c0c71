// The pieces of streams as chunks, which blocks of GPU threads copy (chunk_copy.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "retile/engines/cuda/chunk_copy.h"
#include "retile/schedule/streams.h"

namespace retile::cuda {

struct ChunkTable {
  std::vector<ChunkShape> shapes;
  std::vector<ChunkPiece> pieces;
  std::vector<Chunk> chunks;  // by where they begin in the targets: blocks that run together fill the same sectors
  std::size_t unaligned = 0;  // chunks that are not, to vectors, in tiles that are

  // Most chunks are.
  bool is_aligned() const { return 2 * unaligned <= chunks.size(); }
  // Chunks of the same tiles' other pieces, after those that are there.
  void append(const ChunkTable& other);
};

// The chunk shapes that boxes of a shape are cut into, each with its bytes from the box's start. There are several
// where the box's loops are cut.
struct ChunkBox {
  ChunkShape shape;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};
std::vector<ChunkBox> cut_into_chunks(const PieceShape& shape);

// Bytes of a box that follow each other in row-major order, as boxes. Offsets are from the box's start.
struct BoxPart {
  PieceShape shape;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};
std::vector<BoxPart> cut_range(const PieceShape& shape, ByteRange range);

// A place in a tile: bytes from its first element.
struct TilePlace {
  std::uint32_t tile = 0;
  std::int64_t offset = 0;
};

// Chunks that one launch copies: so many of ChunkTable::chunks from the first on.
struct ChunkRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

// Lists boxes as chunks, for one launch or several.
class ChunkLister {
 public:
  // Both throw RuntimeError where there are more than 32 bits can count.
  void add(const PieceShape& shape, TilePlace from, TilePlace to);
  // The bytes of a range of the box. Places are where the whole box begins.
  void add(const PieceShape& shape, ByteRange range, TilePlace from, TilePlace to);

  // Chunks that were added since the last launch.
  ChunkRange end_launch();
  // Nothing is added after that.
  ChunkTable take() { return std::move(table_); }

 private:
  struct Boxes {
    std::size_t first = 0;  // of the shape's, in ChunkTable::shapes
    std::vector<ChunkBox> list;
  };
  const Boxes& boxes_of(const PieceShape& shape);

  PieceShapes shapes_;
  std::vector<Boxes> boxes_;  // by number of shape
  ChunkTable table_;
  std::size_t launched_ = 0;
};

// The listed pieces of the streams, for one launch. Tiles are numbered array by array. Throws RuntimeError where they
// are more than 32 bits can count.
ChunkTable make_chunks(const Streams& streams);

}  // namespace retile::cuda
