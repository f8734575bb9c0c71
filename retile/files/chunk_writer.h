// Writing the chunks of a stored array, each once: a file has its name when it is complete, and on the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retile/files/codec.h"
#include "retile/files/file.h"
#include "retile/files/pending_files.h"
#include "retile/files/stored_array.h"
#include "retile/memory/buffer.h"

namespace retile::files {

// A stored array that is written. All functions may be called by several threads, for different chunks, and throw
// RuntimeError.
class ChunkTarget {
 public:
  // `file` holds all chunks: that of a .npy file, behind its header, or of an intermediate array, whose chunks lie one
  // after the other; null where each chunk or shard has its own file in the folder `array.path`.
  ChunkTarget(StoredArray array, std::shared_ptr<const File> file);

  const StoredArray& array() const { return array_; }
  // Whether chunks of fill values alone are written like others.
  bool stores_all() const { return file_ != nullptr; }
  // Whether an earlier run has written the file that the chunk is in.
  bool is_done(const Shape& chunk) const;
  // The chunk's bytes, those beyond the array included. `encoded` is what its codecs made of them.
  void write(const Shape& chunk, std::span<const std::byte> encoded);
  // A chunk of fill values alone, which is not stored.
  void leave_out(const Shape& chunk);
  // All chunks that were written have their names when it returns.
  void finish() {
    if (pending_) pending_->finish();
  }

 private:
  // A file that lacks chunks.
  struct Shard {
    std::vector<std::uint64_t> index;  // offsets and lengths
    std::int64_t next = 0;             // offset of the next chunk
    std::int64_t lacks = 0;            // chunks
  };

  void write_to_shard(const Shape& chunk, std::span<const std::byte> encoded);
  void finish_in_shard(const Shape& number);
  Shard& shard_of(const Shape& number);
  std::int64_t chunks_in(const Shape& shard) const;

  StoredArray array_;
  std::shared_ptr<const File> file_;
  std::mutex mutex_;  // guards shards_
  std::map<Shape, Shard> shards_;
  std::optional<PendingFiles> pending_;  // where chunks or shards have files
};

// Memory of a thread that encodes chunks and completes shards.
std::int64_t encoding_bytes(const StoredArray& array);
// Memory of the indices of all shards, which may be open at the same time.
std::int64_t index_bytes(const StoredArray& array);

}  // namespace retile::files
