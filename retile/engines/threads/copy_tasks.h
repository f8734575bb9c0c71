// The pieces of streams, cut and ordered for workers: every element is copied once, straight from tile to tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/copies/copy.h"
#include "retile/engines/backend.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/schedule/streams.h"

namespace retile {

class CopyTasks {
 public:
  // Streams of all devices. Parts of a stage's pieces are listed if their list takes at most so many bytes.
  CopyTasks(Streams streams, int workers, std::int64_t listed_bytes);

  // Bytes that each device gets from others.
  const std::vector<std::int64_t>& received() const { return received_; }

  // Does what PreparedStreams::execute() and execute_rounds() say.
  void run(WorkerPool& pool, std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const;
  void run_rounds(WorkerPool& pool, std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                  const RoundDone& done) const;

 private:
  // A part of a piece. Self-contained, so that the CPU can prefetch it.
  struct Part {
    std::uint32_t from_tile = 0;
    std::uint32_t to_tile = 0;
    std::uint32_t copy = 0;
    std::int64_t from_offset = 0;
    std::int64_t to_offset = 0;
    std::int64_t position = 0;
    ByteRange range;
  };
  // A copy that transposes, cut along the target's lines.
  struct Cut {
    std::size_t dimension = 0;
    std::int64_t length = 0;  // elements of a slice
    std::uint32_t copy = 0;   // of a slice, and of the last one
    std::uint32_t last_copy = 0;
  };

  void add_copies();
  void add_stage_bytes();
  void add_piece(const Stream& stream, const StreamPiece& piece);
  void add_parts(std::vector<Part>& parts, Part whole, ByteRange range) const;
  std::int64_t position_in(const Shape& extent, std::int64_t element) const;
  Part whole_of(const Stream& stream, const StreamPiece& piece) const;
  // The beginnings of tasks of about equal bytes, and the end of the last.
  std::vector<std::size_t> tasks_of(const std::vector<Part>& parts) const;
  void run_parts(WorkerPool& pool, const std::vector<Part>& parts, const std::vector<std::size_t>& task_begins,
                 std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const;
  void run_devices(Device first, Device end, std::span<const std::byte* const> sources,
                   std::span<std::byte* const> targets) const;

  Streams streams_;
  std::vector<BoxCopy> copies_;    // by shape, then those of cuts
  std::vector<Shape> extents_;     // of the copies
  DimensionOrder position_order_;  // of the array, by falling position strides
  std::vector<Cut> cuts_;          // by shape; of length 0 if it is copied as a whole
  Stores stores_ = Stores::cached;
  std::vector<std::int64_t> received_;
  std::int64_t task_bytes_ = 0;
  std::int64_t task_count_ = 0;  // about
  std::vector<Part> parts_;      // array by array, in order of their positions
  std::vector<std::size_t> task_begins_;
};

}  // namespace retile
