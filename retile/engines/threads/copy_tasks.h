// The copies of a stage, cut and ordered for workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/schedule.h"
#include "retile/engines/threads/worker_pool.h"

namespace retile {

class CopyTasks {
 public:
  // The pieces are all that the stage's devices receive.
  CopyTasks(const Stage& stage, const std::vector<Transfer>& pieces, std::int64_t element_size, int workers);

  // Tiles by device.
  void run(WorkerPool& pool, std::span<const std::byte* const> from, std::span<std::byte* const> to) const;

 private:
  struct Copy {
    BoxCopy box;
    std::size_t from;  // devices
    std::size_t to;
  };
  // A part of a copy.
  struct Part {
    std::int64_t position;  // of its first element in the global array, whose dimensions are in the targets' order
    std::size_t copy;
    ByteRange range;
  };

  void add_piece(const Stage& stage, const Transfer& piece, std::int64_t element_size, std::int64_t part_bytes);
  void add_parts(const Box& box, const Stage& stage, std::int64_t element_size, std::int64_t part_bytes);
  void make_tasks(std::int64_t task_bytes);

  std::vector<Copy> copies_;
  std::vector<Part> parts_;               // in the order of their positions
  std::vector<std::size_t> task_begins_;  // in parts_, and the end
  Stores stores_ = Stores::cached;
};

}  // namespace retile
