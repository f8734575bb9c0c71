#include "retile/engines/threads/stream_tasks.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace retile {
namespace {

// A task is large enough to be worth fetching, and small enough that no worker waits long for the last one.
constexpr std::int64_t most_task_bytes = 512 << 10;
constexpr std::int64_t least_task_bytes = 32 << 10;
constexpr std::int64_t tasks_per_worker = 8;
// Less is left in the caches, where somebody may read it soon.
constexpr std::int64_t least_streamed_bytes = 16 << 20;

}  // namespace

StreamTasks::StreamTasks(Streams streams, int workers) : streams_(std::move(streams)) {
  for (const PieceShape& shape : streams_.shapes) copies_.push_back(shape.copy());
  std::vector<std::int64_t> received(static_cast<std::size_t>(streams_.device_count));
  std::int64_t bytes = 0;
  for (const Stream& stream : streams_.streams) {
    bytes += stream.bytes;
    if (stream.from == stream.to) continue;
    std::int64_t& sum = received[static_cast<std::size_t>(stream.to)];
    received_max_ = std::max(received_max_, sum += stream.bytes);
  }
  if (bytes >= least_streamed_bytes) stores_ = Stores::streaming;
  add_parts(std::clamp(bytes / (tasks_per_worker * workers), least_task_bytes, most_task_bytes));
}

void StreamTasks::add_parts(std::int64_t task_bytes) {
  for (std::size_t i = 0; i < streams_.streams.size(); ++i) {
    const std::vector<StreamPiece>& pieces = streams_.streams[i].pieces;
    for (std::size_t j = 0; j < pieces.size(); ++j) {
      const BoxCopy& copy = copies_[pieces[j].shape];
      const std::int64_t length = copy.range_length(task_bytes);
      for (std::int64_t begin = 0; begin < copy.bytes(); begin += length) {
        const ByteRange range{begin, std::min(begin + length, copy.bytes())};
        parts_.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(j), range});
      }
    }
  }
  const auto place = [&](const Part& part) {
    const Stream& stream = streams_.streams[part.stream];
    const StreamPiece& piece = stream.pieces[part.piece];
    return std::tuple(piece.array, stream.to, piece.to_offset, part.range.begin);
  };
  std::sort(parts_.begin(), parts_.end(), [&](const Part& a, const Part& b) { return place(a) < place(b); });
  std::int64_t room = 0;  // in the task
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (room <= 0) {
      task_begins_.push_back(i);
      room = task_bytes;
    }
    room -= parts_[i].range.size();
  }
  task_begins_.push_back(parts_.size());
}

void StreamTasks::run(WorkerPool& pool, std::span<const std::byte* const> sources,
                      std::span<std::byte* const> targets) const {
  const auto devices = static_cast<std::size_t>(streams_.device_count);
  pool.for_each(task_begins_.size() - 1, [&](std::size_t task) {
    for (std::size_t i = task_begins_[task]; i < task_begins_[task + 1]; ++i) {
      const Stream& stream = streams_.streams[parts_[i].stream];
      const StreamPiece& piece = stream.pieces[parts_[i].piece];
      const std::byte* from = sources[piece.array * devices + static_cast<std::size_t>(stream.from)];
      std::byte* to = targets[piece.array * devices + static_cast<std::size_t>(stream.to)];
      copies_[piece.shape].run(from + piece.from_offset, to + piece.to_offset, parts_[i].range, stores_);
    }
  });
}

}  // namespace retile
