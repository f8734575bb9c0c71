// The pieces of streams, cut for workers: every element is copied once, straight from tile to tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/streams.h"
#include "retile/engines/threads/worker_pool.h"

namespace retile {

class StreamTasks {
 public:
  StreamTasks(Streams streams, int workers);

  // Bytes that each device gets from others.
  const std::vector<std::int64_t>& received() const { return received_; }

  // As PreparedStreams::execute().
  void run(WorkerPool& pool, std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const;
  // As PreparedStreams::execute_rounds().
  void run_rounds(WorkerPool& pool, std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                  const RoundDone& done) const;

 private:
  // A part of a piece, with all that copying it takes: who waited for its addresses could not read ahead.
  struct Part {
    std::size_t from_tile = 0;
    std::size_t to_tile = 0;
    std::size_t shape = 0;
    std::int64_t from_offset = 0;
    std::int64_t to_offset = 0;
    ByteRange range;
  };

  void add_parts(std::vector<Part>& parts, const Stream& stream, const StreamPiece& piece, ByteRange range) const;
  // Where tasks of about equal bytes begin, and the end.
  std::vector<std::size_t> tasks_of(const std::vector<Part>& parts) const;
  void run_parts(WorkerPool& pool, const std::vector<Part>& parts, const std::vector<std::size_t>& task_begins,
                 std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const;

  const Streams streams_;
  std::vector<BoxCopy> copies_;  // by shape
  Stores stores_ = Stores::cached;
  std::vector<std::int64_t> received_;
  std::int64_t task_bytes_ = 0;
  std::vector<Part> parts_;  // array by array and target by target: neighbours in memory share caches and pages
  std::vector<std::size_t> task_begins_;
};

}  // namespace retile
