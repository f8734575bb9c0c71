// Reading the chunks of a stored array: whole units, or byte ranges of chunks that are not compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "retile/files/codec.h"
#include "retile/files/file.h"
#include "retile/files/stored_array.h"
#include "retile/memory/buffer.h"
#include "retile/memory/tile_layout.h"

namespace retile::files {

// A stored array that is read, by any number of readers. `file` is the one file that holds all chunks: that of a .npy
// or HDF5 file, or of an intermediate array, whose chunks lie one after the other; null where each chunk or shard has
// its own.
struct ChunkSource {
  StoredArray array;
  std::shared_ptr<const File> file = nullptr;
  Shape unit = {};          // elements that are decoded together
  bool is_dropped = false;  // from the page cache, as it is read
};

ChunkSource open_source(const StoredArray& array);
// Whether most of it is in the page cache, by a sample: what somebody keeps there is not dropped.
bool is_cached(const ChunkSource& source);

// Units that are parts of chunks, where blosc's blocks allow it; nothing where they do not.
std::optional<Shape> block_unit(const StoredArray& array);

// Memory of a reader of units, and of one of ranges.
std::int64_t unit_reading_bytes(const ChunkSource& source);
std::int64_t range_reading_bytes(const StoredArray& array);

// Elements in memory, valid until the next call.
struct ReadElements {
  TileLayout layout;
  const std::byte* data = nullptr;
  bool is_missing = false;  // no chunk is stored: these are fill values
};

// A thread has one of its own. All throw RuntimeError with the name of the file.
class ChunkReader {
 public:
  explicit ChunkReader(const ChunkSource& source);

  // `unit` may reach beyond the array.
  ReadElements read_unit(const Box& unit);
  // `box` lies in one chunk and has no more than most_range_bytes.
  ReadElements read_range(const Box& box);

 private:
  // Where a chunk is stored.
  struct Place {
    const File* file = nullptr;  // null where it is missing
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    std::uint32_t skipped = 0;  // codecs, see StoredChunk
  };

  Place find(const Shape& chunk);
  Place find_in_shard(const Shape& chunk);
  Place find_in_list(const Shape& chunk) const;
  void decode(const Place& place, std::span<std::byte> decoded);
  void open_file(const Shape& number);
  Box chunk_box(const Shape& chunk) const;
  ReadElements fill(const Box& box);
  void read_blocks(const Place& place, const Box& chunk, const Box& unit);
  void require_size(const Place& place) const;
  void read_bytes(const Place& place, std::int64_t offset, std::span<std::byte> out) const;

  const ChunkSource& source_;
  CodecChain codecs_;
  Buffer encoded_;
  Buffer decoded_;
  Buffer window_;  // of byte ranges
  // The file that was opened last, and what is known of it.
  std::optional<Shape> open_number_;
  std::optional<File> open_file_;
  std::vector<std::uint64_t> shard_index_;
};

}  // namespace retile::files
