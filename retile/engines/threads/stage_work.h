// The copies of a stage, cut and ordered for workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/plan/plan.h"

namespace retile {

class StageWork {
 public:
  // The pieces lie in the tiles of the devices that they go from and to, as placed before and after.
  StageWork(const Placement& before, const Placement& after, const std::vector<Transfer>& pieces,
            std::int64_t element_size, int workers);

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
    std::int64_t position;  // of its first element in the global array, row-major
    std::size_t copy;
    ByteRange range;
  };

  void make_tasks(std::int64_t task_bytes);

  std::vector<Copy> copies_;
  std::vector<Part> parts_;               // in the order of their positions
  std::vector<std::size_t> task_begins_;  // in parts_, and the end
  Stores stores_ = Stores::cached;
};

}  // namespace retile
