#include "retile/engines/threads/copy_tasks.h"

#include <algorithm>
#include <optional>
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

// The dimension in which the target's elements lie next to each other.
std::size_t innermost(const PieceShape& shape) {
  DimensionOrder order = order_of({box_at(Shape(shape.extent.size()), shape.extent), shape.to});
  while (shape.extent[order.back()] == 1) order.pop_back();
  return order.back();
}

}  // namespace

CopyTasks::CopyTasks(Streams streams, int workers, std::int64_t listed_bytes)
    : streams_(std::move(streams)),
      received_(static_cast<std::size_t>(streams_.device_count)),
      task_count_(tasks_per_worker * workers) {
  std::int64_t bytes = 0;
  for (const Stream& stream : streams_.streams) {
    bytes += stream.bytes;
    if (stream.from != stream.to) received_[static_cast<std::size_t>(stream.to)] += stream.bytes;
  }
  if (!streams_.is_listed) {
    const Stage& stage = *streams_.stage;
    bytes = streams_.device_count * stage.after().local_size() * stage.element_size();
    add_stage_bytes();
  }
  if (bytes >= least_streamed_bytes) stores_ = Stores::streaming;
  task_bytes_ = std::clamp(bytes / task_count_, least_task_bytes, most_task_bytes);
  if (!streams_.is_listed) return;
  const Shape& strides = streams_.position_strides;
  position_order_ = order_of({box_at(Shape(strides.size()), strides), strides});
  add_copies();
  const bool may_leave = streams_.stage != nullptr;
  for (const Stream& stream : streams_.streams) {
    for (const StreamPiece& piece : streams_.pieces_of(stream)) add_piece(stream, piece);
    if (may_leave && static_cast<std::int64_t>(parts_.size() * sizeof(Part)) > listed_bytes) {
      streams_.drop_lists();
      parts_ = std::vector<Part>();
      return;
    }
  }
  parts_.shrink_to_fit();
  const auto place = [&](const Part& part) {
    return std::tuple(part.to_tile / static_cast<std::uint32_t>(streams_.device_count), part.position, part.to_tile,
                      part.to_offset, part.range.begin);
  };
  std::sort(parts_.begin(), parts_.end(), [&](const Part& a, const Part& b) { return place(a) < place(b); });
  task_begins_ = tasks_of(parts_);
}

// Works the pieces out once, to count them.
void CopyTasks::add_stage_bytes() {
  const Stage& stage = *streams_.stage;
  for (Device device = 0; device < streams_.device_count; ++device) {
    stage.visit_received(device, [&](const Piece& piece) {
      if (piece.from == device) return;
      received_[static_cast<std::size_t>(device)] += volume(piece.box) * stage.element_size();
    });
  }
}

void CopyTasks::add_copies() {
  const auto add = [&](const PieceShape& shape) {
    copies_.push_back(shape.copy());
    extents_.push_back(shape.extent);
    return static_cast<std::uint32_t>(copies_.size() - 1);
  };
  for (const PieceShape& shape : streams_.shapes) add(shape);
  for (std::size_t i = 0; i < streams_.shapes.size(); ++i) {
    Cut& cut = cuts_.emplace_back();
    if (!copies_[i].is_transposing()) continue;
    PieceShape slice = streams_.shapes[i];
    cut.dimension = innermost(slice);
    cut.length = std::max<std::int64_t>(1, transposed_bytes / slice.element_size);
    const std::int64_t extent = slice.extent[cut.dimension];
    slice.extent[cut.dimension] = std::min(extent, cut.length);
    cut.copy = cut.last_copy = add(slice);
    slice.extent[cut.dimension] = extent % cut.length;
    if (extent > cut.length && extent % cut.length > 0) cut.last_copy = add(slice);
  }
}

CopyTasks::Part CopyTasks::whole_of(const Stream& stream, const StreamPiece& piece) const {
  const std::int64_t first_tile = piece.array * streams_.device_count;
  return {static_cast<std::uint32_t>(first_tile + stream.from),
          static_cast<std::uint32_t>(first_tile + stream.to),
          piece.shape,
          piece.from_offset,
          piece.to_offset,
          piece.position,
          {}};
}

void CopyTasks::add_piece(const Stream& stream, const StreamPiece& piece) {
  Part part = whole_of(stream, piece);
  const Cut& cut = cuts_[piece.shape];
  if (cut.length == 0) return add_parts(parts_, part, {0, copies_[part.copy].bytes()});
  const PieceShape& shape = streams_.shapes[piece.shape];
  const std::int64_t extent = shape.extent[cut.dimension];
  for (std::int64_t first = 0; first < extent; first += cut.length) {
    part.copy = first + cut.length <= extent ? cut.copy : cut.last_copy;
    part.from_offset = piece.from_offset + first * shape.from[cut.dimension];
    part.to_offset = piece.to_offset + first * shape.to[cut.dimension];
    if (!streams_.position_strides.empty()) {
      part.position = piece.position + first * streams_.position_strides[cut.dimension];
    }
    add_parts(parts_, part, {0, copies_[part.copy].bytes()});
  }
}

void CopyTasks::add_parts(std::vector<Part>& parts, Part whole, ByteRange range) const {
  const std::int64_t length = copies_[whole.copy].range_length(std::min(task_bytes_, most_part_bytes));
  const std::int64_t element = streams_.stage == nullptr ? 1 : streams_.stage->element_size();
  const std::int64_t position = whole.position;
  for (std::int64_t begin = range.begin; begin < range.end; begin += length) {
    whole.position = position + position_in(extents_[whole.copy], begin / element);
    whole.range = {begin, std::min(begin + length, range.end)};
    parts.push_back(whole);
  }
}

// From a box's first element to another one of it.
std::int64_t CopyTasks::position_in(const Shape& extent, std::int64_t element) const {
  const Shape& strides = streams_.position_strides;
  if (strides.empty() || element == 0) return 0;
  std::int64_t position = 0;
  for (std::size_t i = position_order_.size(); i-- > 0;) {
    const std::size_t dimension = position_order_[i];
    position += element % extent[dimension] * strides[dimension];
    element /= extent[dimension];
  }
  return position;
}

std::vector<std::size_t> CopyTasks::tasks_of(const std::vector<Part>& parts) const {
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

void CopyTasks::run_parts(WorkerPool& pool, const std::vector<Part>& parts, const std::vector<std::size_t>& task_begins,
                          std::span<const std::byte* const> sources, std::span<std::byte* const> targets) const {
  pool.for_each(task_begins.size() - 1, [&](std::size_t task) {
    for (std::size_t i = task_begins[task]; i < task_begins[task + 1]; ++i) {
      const Part& part = parts[i];
      copies_[part.copy].run(sources[part.from_tile] + part.from_offset, targets[part.to_tile] + part.to_offset,
                             part.range, stores_);
    }
    finish_stores(stores_);
  });
}

// Pieces are worked out as they are copied.
void CopyTasks::run_devices(Device first, Device end, std::span<const std::byte* const> sources,
                            std::span<std::byte* const> targets) const {
  PiecePlacer placer(*streams_.stage);
  std::vector<std::optional<BoxCopy>> copies;  // by shape
  for (Device device = first; device < end; ++device) {
    streams_.stage->visit_received(device, [&](const Piece& transfer) {
      const StreamPiece piece = placer.place(transfer);
      if (piece.shape >= copies.size()) copies.resize(piece.shape + 1);
      if (!copies[piece.shape]) copies[piece.shape] = placer.shapes()[piece.shape].copy();
      copies[piece.shape]->run(sources[static_cast<std::size_t>(transfer.from)] + piece.from_offset,
                               targets[static_cast<std::size_t>(device)] + piece.to_offset, stores_);
    });
  }
  finish_stores(stores_);
}

void CopyTasks::run(WorkerPool& pool, std::span<const std::byte* const> sources,
                    std::span<std::byte* const> targets) const {
  if (streams_.is_listed) return run_parts(pool, parts_, task_begins_, sources, targets);
  const std::int64_t batch = divide_up(streams_.device_count, task_count_);
  pool.for_each(static_cast<std::size_t>(divide_up(streams_.device_count, batch)), [&](std::size_t task) {
    const Device first = static_cast<Device>(task) * batch;
    run_devices(first, std::min(first + batch, streams_.device_count), sources, targets);
  });
}

void CopyTasks::run_rounds(WorkerPool& pool, std::span<const std::byte* const> sources,
                           std::span<std::byte* const> targets, const RoundDone& done) const {
  std::vector<StreamCursor> cursors(streams_.streams.size());
  std::vector<Part> parts;
  for (std::int64_t round = 0; round < streams_.rounds; ++round) {
    parts.clear();
    for (std::size_t i = 0; i < cursors.size(); ++i) {
      const Stream& stream = streams_.streams[i];
      cursors[i].advance(
          streams_, stream, streams_.part_of(stream.bytes, round).size(),
          [&](const StreamPiece& piece, ByteRange range) { add_parts(parts, whole_of(stream, piece), range); });
    }
    run_parts(pool, parts, tasks_of(parts), sources, targets);
    done(round);
  }
}

}  // namespace retile
