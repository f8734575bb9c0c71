#include "retile/engines/threads/stage_work.h"

#include <algorithm>
#include <tuple>

namespace retile {
namespace {

// A part fits in the first-level cache's neighbourhood, so that parts which share cache lines find them there.
constexpr std::int64_t most_part_bytes = 64 << 10;
// A task is large enough to be worth fetching, and small enough that no worker waits long for the last one.
constexpr std::int64_t most_task_bytes = 512 << 10;
constexpr std::int64_t least_task_bytes = 32 << 10;
constexpr std::int64_t tasks_per_worker = 8;
// Stages that move less leave their results in caches, where the next stage finds them.
constexpr std::int64_t least_streamed_bytes = 16 << 20;

// Row-major number, in the global array, of an element of the box that is given by its number there.
std::int64_t global_position(const Box& box, const Shape& global, std::int64_t element) {
  std::int64_t position = 0;
  std::int64_t stride = 1;
  for (std::size_t i = global.size(); i-- > 0;) {
    const std::int64_t extent = box.hi[i] - box.lo[i];
    position += (box.lo[i] + element % extent) * stride;
    element /= extent;
    stride *= global[i];
  }
  return position;
}

}  // namespace

StageWork::StageWork(const Placement& before, const Placement& after, const std::vector<Transfer>& pieces,
                     std::int64_t element_size, int workers) {
  std::int64_t bytes = 0;
  for (const Transfer& piece : pieces) {
    copies_.push_back({BoxCopy(before.box(piece.from), after.box(piece.to), piece.box, element_size),
                       static_cast<std::size_t>(piece.from), static_cast<std::size_t>(piece.to)});
    bytes += copies_.back().box.bytes();
  }
  if (bytes >= least_streamed_bytes) stores_ = Stores::streaming;
  const std::int64_t task_bytes = std::clamp(bytes / (tasks_per_worker * workers), least_task_bytes, most_task_bytes);
  for (std::size_t i = 0; i < copies_.size(); ++i) {
    const BoxCopy& copy = copies_[i].box;
    const std::int64_t length = copy.range_length(std::min(task_bytes, most_part_bytes));
    for (std::int64_t begin = 0; begin < copy.bytes(); begin += length) {
      const std::int64_t position = global_position(pieces[i].box, after.global_shape(), begin / element_size);
      parts_.push_back({position, i, {begin, std::min(begin + length, copy.bytes())}});
    }
  }
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return std::tie(a.position, a.copy) < std::tie(b.position, b.copy); });
  make_tasks(task_bytes);
}

// Parts that are near each other in the array go to one worker: they read the same lines, or write them.
void StageWork::make_tasks(std::int64_t task_bytes) {
  std::int64_t bytes = task_bytes;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (bytes >= task_bytes) {
      task_begins_.push_back(i);
      bytes = 0;
    }
    bytes += parts_[i].range.size();
  }
  task_begins_.push_back(parts_.size());
}

void StageWork::run(WorkerPool& pool, std::span<const std::byte* const> from, std::span<std::byte* const> to) const {
  pool.for_each(task_begins_.size() - 1, [&](std::size_t task) {
    for (std::size_t i = task_begins_[task]; i < task_begins_[task + 1]; ++i) {
      const Copy& copy = copies_[parts_[i].copy];
      copy.box.run(from[copy.from], to[copy.to], parts_[i].range, stores_);
    }
  });
}

}  // namespace retile
