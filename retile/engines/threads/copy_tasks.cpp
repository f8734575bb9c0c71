#include "retile/engines/threads/copy_tasks.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "retile/base/arithmetic.h"

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

CopyTasks::CopyTasks(Stage stage, std::int64_t element_size, int workers, std::int64_t most_bytes)
    : stage_(std::make_unique<const Stage>(std::move(stage))),
      element_size_(element_size),
      received_(static_cast<std::size_t>(stage_->after().device_count())),
      shapes_(*stage_, element_size) {
  const std::int64_t devices = stage_->after().device_count();
  const std::int64_t bytes = devices * stage_->after().local_size() * element_size;
  const std::int64_t tasks = tasks_per_worker * workers;
  if (bytes >= least_streamed_bytes) stores_ = Stores::streaming;
  task_bytes_ = std::clamp(bytes / tasks, least_task_bytes, most_task_bytes);
  if (stage_->reduction()) {
    make_reductions();
    return;
  }
  const std::int64_t batch = divide_up(devices, tasks);
  bool is_listed = true;
  for (PieceCursor cursor(*stage_); cursor.device() < devices;) {
    if (cursor.device() % batch == 0) batches_.push_back(cursor);
    cursor.next([&](const Transfer& piece) {
      if (piece.from != piece.to) received_[static_cast<std::size_t>(piece.to)] += volume(piece.box) * element_size;
      if (is_listed) add_piece(piece);
    });
    is_listed = is_listed && listed_bytes() <= most_bytes;
  }
  if (is_listed) {
    batches_.clear();
    make_tasks();
  } else {
    std::vector<PlacedCopy>().swap(copies_);
    std::vector<Part>().swap(parts_);
  }
}

std::int64_t CopyTasks::listed_bytes() const {
  return static_cast<std::int64_t>(copies_.size() * sizeof(PlacedCopy) + parts_.size() * sizeof(Part)) +
         (copies_.empty() ? 0 : shapes_.bytes());
}

void CopyTasks::add_piece(const Transfer& piece) {
  const PlacedCopy whole = shapes_.place(piece.from, piece.to, piece.box);
  if (!shapes_.shape(whole).is_transposing()) return add_copy(whole, piece.box);
  DimensionOrder order = order_of(stage_->tile_after(piece.to, piece.box));
  while (piece.box.hi[order.back()] - piece.box.lo[order.back()] == 1) order.pop_back();
  const std::size_t along = order.back();
  const std::int64_t length = std::max<std::int64_t>(1, transposed_bytes / element_size_);
  for (Box part = piece.box; part.lo[along] < piece.box.hi[along]; part.lo[along] = part.hi[along]) {
    part.hi[along] = std::min(part.lo[along] + length, piece.box.hi[along]);
    add_copy(shapes_.place(piece.from, piece.to, part), part);
  }
}

void CopyTasks::add_copy(const PlacedCopy& placed, const Box& box) {
  copies_.push_back(placed);
  const BoxCopy& copy = shapes_.shape(placed);
  const DimensionOrder order = order_of(stage_->tile_after(placed.to, box));
  const std::int64_t length = copy.range_length(std::min(task_bytes_, most_part_bytes));
  for (std::int64_t begin = 0; begin < copy.bytes(); begin += length) {
    const std::int64_t position = global_position(box, stage_->after().global_shape(), order, begin / element_size_);
    parts_.push_back({position, copies_.size() - 1, {begin, std::min(begin + length, copy.bytes())}});
  }
}

// Parts that are near each other in the array go to one worker: they read the same lines, or write them.
void CopyTasks::make_tasks() {
  copies_.shrink_to_fit();
  parts_.shrink_to_fit();
  std::sort(parts_.begin(), parts_.end(),
            [](const Part& a, const Part& b) { return std::tie(a.position, a.copy) < std::tie(b.position, b.copy); });
  std::int64_t bytes = task_bytes_;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (bytes >= task_bytes_) {
      task_begins_.push_back(i);
      bytes = 0;
    }
    bytes += parts_[i].range.size();
  }
  task_begins_.push_back(parts_.size());
}

void CopyTasks::make_reductions() {
  const std::int64_t length = std::max<std::int64_t>(1, task_bytes_ / element_size_);
  for (Device device = 0; device < stage_->after().device_count(); ++device) {
    const std::int64_t elements = stage_->after().size(device);
    for (std::int64_t first = 0; first < elements; first += length) {
      reductions_.push_back({device, first, std::min(length, elements - first)});
    }
  }
}

void CopyTasks::run(WorkerPool& pool, std::span<const std::byte* const> from, std::span<std::byte* const> to) const {
  if (stage_->reduction()) {
    pool.for_each(reductions_.size(), [&](std::size_t task) {
      const auto& [device, first, count] = reductions_[task];
      const auto d = static_cast<std::size_t>(device);
      stage_->reduce(device, first, count, from[d], to[d]);
    });
  } else if (batches_.empty()) {
    pool.for_each(task_begins_.size() - 1, [&](std::size_t task) { run_listed(task, from, to); });
  } else {
    pool.for_each(batches_.size(), [&](std::size_t batch) { run_batch(batch, from, to); });
  }
}

void CopyTasks::run_listed(std::size_t task, std::span<const std::byte* const> from,
                           std::span<std::byte* const> to) const {
  for (std::size_t i = task_begins_[task]; i < task_begins_[task + 1]; ++i) {
    const PlacedCopy& copy = copies_[parts_[i].copy];
    shapes_.shape(copy).run(from[copy.from] + copy.from_offset, to[copy.to] + copy.to_offset, parts_[i].range, stores_);
  }
  finish_stores(stores_);
}

void CopyTasks::run_batch(std::size_t batch, std::span<const std::byte* const> from,
                          std::span<std::byte* const> to) const {
  const Device end = batch + 1 < batches_.size() ? batches_[batch + 1].device() : stage_->after().device_count();
  for (PieceCursor cursor = batches_[batch]; cursor.device() < end;) {
    PieceCopies shapes(*stage_, element_size_);
    cursor.next([&](const Transfer& piece) {
      const PlacedCopy copy = shapes.place(piece.from, piece.to, piece.box);
      shapes.shape(copy).run(from[copy.from] + copy.from_offset, to[copy.to] + copy.to_offset, stores_);
    });
  }
  finish_stores(stores_);
}

}  // namespace retile
