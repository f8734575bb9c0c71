// The pieces of streams as chunks, which blocks of GPU threads copy (chunk_copy.h).
#pragma once

#include <cstddef>
#include <cstdint>
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

// What a box of a shape becomes: several chunk shapes where its loops are cut, each so many bytes from the box's start.
struct ChunkBox {
  ChunkShape shape;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};
std::vector<ChunkBox> cut_into_chunks(const PieceShape& shape);

// The listed pieces of the streams. Tiles are numbered array by array. Throws RuntimeError where they are more than 32
// bits can count.
ChunkTable make_chunks(const Streams& streams);

}  // namespace retile::cuda
