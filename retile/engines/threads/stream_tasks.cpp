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
  received_.resize(static_cast<std::size_t>(streams_.device_count));
  std::int64_t bytes = 0;
  for (const Stream& stream : streams_.streams) {
    bytes += stream.bytes;
    if (stream.from != stream.to) received_[static_cast<std::size_t>(stream.to)] += stream.bytes;
  }
  if (bytes >= least_streamed_bytes) stores_ = Stores::streaming;
  task_bytes_ = std::clamp(bytes / (tasks_per_worker * workers), least_task_bytes, most_task_bytes);
  for (const Stream& stream : streams_.streams) {
    for (const StreamPiece& piece : stream.pieces) add_parts(parts_, stream, piece, {0, copies_[piece.shape].bytes()});
  }
  const auto place = [](const Part& part) { return std::tuple(part.to_tile, part.to_offset, part.range.begin); };
  std::sort(parts_.begin(), parts_.end(), [&](const Part& a, const Part& b) { return place(a) < place(b); });
  task_begins_ = tasks_of(parts_);
}

void StreamTasks::add_parts(std::vector<Part>& parts, const Stream& stream, const StreamPiece& piece,
                            ByteRange range) const {
  const std::int64_t length = copies_[piece.shape].range_length(task_bytes_);
  const std::size_t first_tile = piece.array * static_cast<std::size_t>(streams_.device_count);
  for (std::int64_t begin = range.begin; begin < range.end; begin += length) {
    parts.push_back({first_tile + static_cast<std::size_t>(stream.from),
                     first_tile + static_cast<std::size_t>(stream.to),
                     piece.shape,
                     piece.from_offset,
                     piece.to_offset,
                     {begin, std::min(begin + length, range.end)}});
  }
}

std::vector<std::size_t> StreamTasks::tasks_of(const std::vector<Part>& parts) const {
  std::vector<std::size_t> begins;
  std::int64_t room = 0;  // in the task
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (room <= 0) {
      begins.push_back(i);
      room = task_bytes_;
    }
    room -= parts[i].range.size();
  }
  begins.push_back(parts.size());
  return begins;
}

void StreamTasks::run_parts(WorkerPool& pool, const std::vector<Part>& parts,
                            const std::vector<std::size_t>& task_begins, std::span<const std::byte* const> sources,
                            std::span<std::byte* const> targets) const {
  pool.for_each(task_begins.size() - 1, [&](std::size_t task) {
    for (std::size_t i = task_begins[task]; i < task_begins[task + 1]; ++i) {
      const Part& part = parts[i];
      copies_[part.shape].run(sources[part.from_tile] + part.from_offset, targets[part.to_tile] + part.to_offset,
                              part.range, stores_);
    }
    finish_stores(stores_);
  });
}

void StreamTasks::run(WorkerPool& pool, std::span<const std::byte* const> sources,
                      std::span<std::byte* const> targets) const {
  run_parts(pool, parts_, task_begins_, sources, targets);
}

void StreamTasks::run_rounds(WorkerPool& pool, std::span<const std::byte* const> sources,
                             std::span<std::byte* const> targets, const RoundDone& done) const {
  std::vector<StreamCursor> cursors(streams_.streams.size());
  std::vector<Part> parts;
  for (std::int64_t round = 0; round < streams_.rounds; ++round) {
    parts.clear();
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      const Stream& stream = streams_.streams[i];
      cursors[i].advance(
          streams_, stream, streams_.part_of(stream.bytes, round).size(),
          [&](std::size_t piece, ByteRange range) { add_parts(parts, stream, stream.pieces[piece], range); });
    }
    run_parts(pool, parts, tasks_of(parts), sources, targets);
    done(round);
  }
}

}  // namespace retile
