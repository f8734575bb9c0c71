#include "retile/engines/threads/copy_tasks.h"

#include <algorithm>
#include <tuple>
#include <utility>

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

// A copy that transposes is cut along the target's lines into pieces of this many bytes, so that a part has many of the
// source's lines, and uses them whole.
constexpr std::int64_t transposed_bytes = 2 << 10;

// Number, in the global array with its dimensions in this order, of an element that is given by its number in the box.
std::int64_t global_position(const Box& box, const Shape& global, const DimensionOrder& order, std::int64_t element) {
  std::int64_t position = 0;
  std::int64_t stride = 1;
  for (std::size_t i = global.size(); i-- > 0;) {
    const std::size_t dimension = order[i];
    const std::int64_t extent = box.hi[dimension] - box.lo[dimension];
    position += (box.lo[dimension] + element % extent) * stride;
    element /= extent;
    stride *= global[dimension];
  }
  return position;
}

}  // namespace

CopyTasks::CopyTasks(const Stage& stage, const std::vector<Transfer>& pieces, std::int64_t element_size, int workers) {
  std::int64_t bytes = 0;
  for (const Transfer& piece : pieces) bytes += volume(piece.box) * element_size;
  if (bytes >= least_streamed_bytes) stores_ = Stores::streaming;
  const std::int64_t task_bytes = std::clamp(bytes / (tasks_per_worker * workers), least_task_bytes, most_task_bytes);
  for (const Transfer& piece : pieces) add_piece(stage, piece, element_size, std::min(task_bytes, most_part_bytes));
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return std::tie(a.position, a.copy) < std::tie(b.position, b.copy); });
  make_tasks(task_bytes);
}

void CopyTasks::add_piece(const Stage& stage, const Transfer& piece, std::int64_t element_size,
                          std::int64_t part_bytes) {
  const TileLayout from = stage.tile_before(piece.from);
  const TileLayout to = stage.tile_after(piece.to);
  const auto add = [&](const Box& box, const BoxCopy& copy) {
    copies_.push_back({copy, static_cast<std::size_t>(piece.from), static_cast<std::size_t>(piece.to)});
    add_parts(box, stage, element_size, part_bytes);
  };
  const BoxCopy whole(from, to, piece.box, element_size);
  if (!whole.is_transposing()) return add(piece.box, whole);
  DimensionOrder order = order_of(to);
  while (piece.box.hi[order.back()] - piece.box.lo[order.back()] == 1) order.pop_back();
  const std::size_t along = order.back();
  const std::int64_t length = std::max<std::int64_t>(1, transposed_bytes / element_size);
  for (Box part = piece.box; part.lo[along] < piece.box.hi[along]; part.lo[along] = part.hi[along]) {
    part.hi[along] = std::min(part.lo[along] + length, piece.box.hi[along]);
    add(part, BoxCopy(from, to, part, element_size));
  }
}

// Of the copy that was added last.
void CopyTasks::add_parts(const Box& box, const Stage& stage, std::int64_t element_size, std::int64_t part_bytes) {
  const BoxCopy& copy = copies_.back().box;
  const DimensionOrder order = order_of(stage.tile_after(static_cast<Device>(copies_.back().to)));
  const std::int64_t length = copy.range_length(part_bytes);
  for (std::int64_t begin = 0; begin < copy.bytes(); begin += length) {
    const std::int64_t position = global_position(box, stage.after().global_shape(), order, begin / element_size);
    parts_.push_back({position, copies_.size() - 1, {begin, std::min(begin + length, copy.bytes())}});
  }
}

// Parts that are near each other in the array go to one worker: they read the same lines, or write them.
void CopyTasks::make_tasks(std::int64_t task_bytes) {
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

void CopyTasks::run(WorkerPool& pool, std::span<const std::byte* const> from, std::span<std::byte* const> to) const {
  pool.for_each(task_begins_.size() - 1, [&](std::size_t task) {
    for (std::size_t i = task_begins_[task]; i < task_begins_[task + 1]; ++i) {
      const Copy& copy = copies_[parts_[i].copy];
      copy.box.run(from[copy.from], to[copy.to], parts_[i].range, stores_);
    }
  });
}

}  // namespace retile
