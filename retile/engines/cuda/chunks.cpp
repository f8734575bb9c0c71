#include "retile/engines/cuda/chunks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile::cuda {
namespace {

using Loop = BoxCopy::Loop;

constexpr std::int64_t most_runs = std::int64_t{1} << 30U;
// A patch of a box whose short runs follow each other in different dimensions on both sides is as wide as this in both:
// four sectors, so that the caches use what they fetch whole.
constexpr std::int64_t patch_bytes = 128;

// A box on its way to chunks. Loops are innermost first.
struct CutBox {
  std::vector<Loop> loops;
  std::int64_t run_bytes = 0;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;

  std::int64_t runs() const {
    std::int64_t runs = 1;
    for (const Loop& loop : loops) runs *= loop.count;
    return runs;
  }
  // So many iterations of a loop from `first` on.
  CutBox part(std::size_t loop, std::int64_t first, std::int64_t count) const {
    CutBox box = *this;
    box.from_offset += first * loops[loop].from_stride;
    box.to_offset += first * loops[loop].to_stride;
    box.loops[loop].count = count;
    return box;
  }
};

void sort_loops(std::vector<Loop>::iterator begin, std::vector<Loop>::iterator end) {
  std::stable_sort(begin, end,
                   [](const Loop& a, const Loop& b) { return std::abs(a.to_stride) < std::abs(b.to_stride); });
}

CutBox loops_of(const BoxCopy& copy) {
  CutBox box{{}, copy.run_bytes(), copy.run_place(0).from, copy.run_place(0).to};
  for (const Loop& loop : copy.loops()) {
    if (loop.count > 1) box.loops.push_back(loop);
  }
  sort_loops(box.loops.begin(), box.loops.end());
  return box;
}

// Cuts the outermost loop until runs can be counted and loops fit.
void add_small_enough(const CutBox& box, std::vector<CutBox>& result) {
  const std::int64_t runs = box.runs();
  const bool has_many_loops = box.loops.size() + 2 > most_loops;  // patches take two more
  if (!has_many_loops && runs < most_runs) return result.push_back(box);
  const std::size_t last = box.loops.size() - 1;
  const std::int64_t count = box.loops[last].count;
  const std::int64_t each = has_many_loops ? 1 : std::max<std::int64_t>(1, most_runs / 2 / (runs / count));
  for (std::int64_t first = 0; first < count; first += each) {
    CutBox part = box.part(last, first, std::min(each, count - first));
    if (part.loops[last].count == 1) part.loops.pop_back();
    add_small_enough(part, result);
  }
}

// Cuts a loop into one of `length` iterations, in its place, and one over these at the end.
void cut_loop(CutBox& box, std::size_t loop, std::int64_t length) {
  const Loop whole = box.loops[loop];
  if (whole.count <= length) return;
  box.loops[loop].count = length;
  box.loops.push_back({whole.count / length, whole.from_stride * length, whole.to_stride * length});
}

// Whole patches, of loops 0 and 1, and what is left of both.
void add_patches(CutBox box, std::vector<CutBox>& result) {
  const std::int64_t length = std::max<std::int64_t>(2, patch_bytes / box.run_bytes);
  const auto nearest = std::min_element(box.loops.begin(), box.loops.end(), [](const Loop& a, const Loop& b) {
    return std::abs(a.from_stride) < std::abs(b.from_stride);
  });
  if (box.run_bytes >= patch_bytes || nearest == box.loops.begin() || nearest == box.loops.end()) {
    return result.push_back(std::move(box));
  }
  std::rotate(box.loops.begin() + 1, nearest, nearest + 1);
  std::vector<CutBox> boxes{std::move(box)};
  for (const std::size_t loop : {std::size_t{0}, std::size_t{1}}) {
    std::vector<CutBox> parts;
    for (const CutBox& whole : boxes) {
      const std::int64_t count = whole.loops[loop].count;
      const std::int64_t rest = count > length ? count % length : 0;
      parts.push_back(whole.part(loop, 0, count - rest));
      if (rest > 0) parts.push_back(whole.part(loop, count - rest, rest));
    }
    boxes = std::move(parts);
  }
  for (CutBox& part : boxes) {
    cut_loop(part, 0, length);
    cut_loop(part, 1, length);
    sort_loops(part.loops.begin() + 2, part.loops.end());
    result.push_back(std::move(part));
  }
}

// As many threads to a run as make the fewest rounds of the block's threads: of those the most, since neighbours that
// share a run touch memory side by side.
Lanes lanes_for(std::int64_t units, std::int64_t runs) {
  Lanes best;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  const auto side_by_side = static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint64_t>(units - 1)));
  for (std::uint32_t log = std::min(side_by_side, 3U); (block_threads >> log) > 0; ++log) {
    const std::int64_t each = divide_up(units, std::int64_t{1} << log);
    const std::int64_t rounds = divide_up(runs, std::int64_t{block_threads >> log}) * each;
    if (rounds > fewest) continue;
    fewest = rounds;
    best = {log, static_cast<std::uint32_t>(each)};
  }
  return best;
}

// The largest power of two, at most 16, that divides all of these.
std::uint32_t alignment_of(const CutBox& box) {
  auto bits = static_cast<std::uint64_t>(box.run_bytes) | 16U;
  for (const Loop& loop : box.loops) {
    bits |= static_cast<std::uint64_t>(loop.from_stride) | static_cast<std::uint64_t>(loop.to_stride);
  }
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

ChunkShape shape_of(const CutBox& box) {
  ChunkShape shape;
  shape.loops = static_cast<std::uint32_t>(box.loops.size());
  shape.runs = static_cast<std::uint32_t>(box.runs());
  shape.run_bytes = static_cast<std::uint64_t>(box.run_bytes);
  shape.alignment = alignment_of(box);
  for (std::size_t i = 0; i < box.loops.size(); ++i) {
    shape.counts[i] = divide_by(static_cast<std::uint32_t>(box.loops[i].count));
    shape.from_strides[i] = box.loops[i].from_stride;
    shape.to_strides[i] = box.loops[i].to_stride;
  }
  shape.run_chunks = static_cast<std::uint32_t>(divide_up(box.run_bytes, std::int64_t{chunk_bytes}));
  shape.chunks_of_run = divide_by(shape.run_chunks);
  shape.chunk_runs = static_cast<std::uint32_t>(std::max<std::int64_t>(1, chunk_bytes / box.run_bytes));
  const std::int64_t part = std::min<std::int64_t>(box.run_bytes, chunk_bytes);
  const std::int64_t runs = std::min<std::int64_t>(shape.chunk_runs, shape.runs);
  for (std::uint32_t log = 0; log < unit_kinds; ++log) {
    shape.lanes[log] = lanes_for(divide_up(part, std::int64_t{1} << log), runs);
  }
  shape.shifted_lanes = lanes_for(std::max<std::int64_t>(1, part / 16), runs);
  return shape;
}

std::int64_t chunks_in(const ChunkShape& shape) {
  return shape.run_chunks > 1 ? std::int64_t{shape.runs} * shape.run_chunks
                              : divide_up(std::int64_t{shape.runs}, std::int64_t{shape.chunk_runs});
}

}  // namespace

Divisor divide_by(std::uint32_t value) {
  const auto shift = static_cast<std::uint32_t>(std::bit_width(value - 1));
  const std::uint64_t multiplier = ((std::uint64_t{1} << 32U) * ((std::uint64_t{1} << shift) - value)) / value + 1;
  return {value, static_cast<std::uint32_t>(multiplier), shift};
}

std::vector<ChunkBox> cut_into_chunks(const PieceShape& shape) {
  std::vector<CutBox> small;
  add_small_enough(loops_of(shape.copy()), small);
  std::vector<CutBox> cut;
  for (CutBox& box : small) add_patches(std::move(box), cut);
  std::vector<ChunkBox> boxes;
  for (const CutBox& box : cut) boxes.push_back({shape_of(box), box.from_offset, box.to_offset});
  return boxes;
}

namespace {

// Where a chunk begins in its target tile, in bytes.
std::int64_t target_place(const ChunkShape& shape, const ChunkPiece& piece, std::uint32_t number) {
  const ChunkPart part = part_of_chunk(shape, number);
  return piece.to_offset + static_cast<std::int64_t>(part.begin) + offsets_of_run(shape, part.first_run).to;
}

void sort_by_target(ChunkTable& table, std::size_t first) {
  struct Place {
    std::uint32_t tile;
    std::int64_t offset;
    Chunk chunk;
  };
  const auto begin = table.chunks.begin() + static_cast<std::ptrdiff_t>(first);
  std::vector<Place> places;
  places.reserve(table.chunks.size() - first);
  std::transform(begin, table.chunks.end(), std::back_inserter(places), [&](const Chunk& chunk) -> Place {
    const ChunkPiece& piece = table.pieces[chunk.piece];
    return {piece.to_tile, target_place(table.shapes[piece.shape], piece, chunk.number), chunk};
  });
  std::sort(places.begin(), places.end(),
            [](const Place& a, const Place& b) { return std::pair(a.tile, a.offset) < std::pair(b.tile, b.offset); });
  std::transform(places.begin(), places.end(), begin, [](const Place& place) { return place.chunk; });
}

void require_countable(std::int64_t chunks) {
  if (chunks <= std::numeric_limits<std::int32_t>::max()) return;
  throw RuntimeError("the run has too many pieces for one launch on a GPU");
}

}  // namespace

void ChunkTable::append(const ChunkTable& other) {
  require_countable(static_cast<std::int64_t>(chunks.size() + other.chunks.size()));
  const auto first_shape = static_cast<std::uint32_t>(shapes.size());
  const auto first_piece = static_cast<std::uint32_t>(pieces.size());
  shapes.insert(shapes.end(), other.shapes.begin(), other.shapes.end());
  for (ChunkPiece piece : other.pieces) {
    piece.shape += first_shape;
    pieces.push_back(piece);
  }
  for (const Chunk& chunk : other.chunks) chunks.push_back({chunk.piece + first_piece, chunk.number});
  unaligned += other.unaligned;
}

namespace {

// Cuts a range of a box's inner dimensions, from `level` on: a part of the first index, whole ones, a part of the last.
class RangeCutter {
 public:
  explicit RangeCutter(const PieceShape& shape) : shape_(shape), slabs_(shape.extent.size() + 1, shape.element_size) {
    for (std::size_t i = shape.extent.size(); i-- > 0;) slabs_[i] = slabs_[i + 1] * shape.extent[i];
  }

  void cut(std::size_t level, std::int64_t from, std::int64_t to, ByteRange range) {
    if (range.size() == 0) return;
    if (range.size() == slabs_[level]) return add(level, 1, from, to);
    if (level == shape_.extent.size()) {  // bytes of an element
      parts_.push_back({{{range.size()}, {1}, {1}, 1}, from + range.begin, to + range.begin});
      return;
    }
    const std::int64_t slab = slabs_[level + 1];
    const auto cut_index = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
      cut(level + 1, from + index * shape_.from[level], to + index * shape_.to[level],
          {begin - index * slab, end - index * slab});
    };
    const std::int64_t first = divide_up(range.begin, slab);
    const std::int64_t last = range.end / slab;
    if (first > last) return cut_index(last, range.begin, range.end);
    cut_index(first - 1, range.begin, first * slab);
    if (first < last) {
      add(level + 1, last - first, from + first * shape_.from[level], to + first * shape_.to[level]);
    }
    cut_index(last, last * slab, range.end);
  }
  std::vector<BoxPart> take() { return std::move(parts_); }

 private:
  // So many indices of the dimension before `level`, whole from there on.
  void add(std::size_t level, std::int64_t count, std::int64_t from, std::int64_t to) {
    const std::size_t first = level == 0 ? 0 : level - 1;
    const auto tail = [&](const std::vector<std::int64_t>& all) {
      return std::vector<std::int64_t>(all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    };
    PieceShape part{tail(shape_.extent), tail(shape_.from), tail(shape_.to), shape_.element_size};
    if (level > 0) part.extent.front() = count;
    parts_.push_back({std::move(part), from, to});
  }

  const PieceShape& shape_;
  std::vector<std::int64_t> slabs_;  // bytes of the dimensions from each one on
  std::vector<BoxPart> parts_;
};

}  // namespace

std::vector<BoxPart> cut_range(const PieceShape& shape, ByteRange range) {
  RangeCutter cutter(shape);
  cutter.cut(0, 0, 0, range);
  return cutter.take();
}

const ChunkLister::Boxes& ChunkLister::boxes_of(const PieceShape& shape) {
  const std::uint32_t number = shapes_.number_of(shape);
  if (number == boxes_.size()) {
    boxes_.push_back({table_.shapes.size(), cut_into_chunks(shape)});
    for (const ChunkBox& box : boxes_.back().list) table_.shapes.push_back(box.shape);
  }
  return boxes_[number];
}

void ChunkLister::add(const PieceShape& shape, TilePlace from, TilePlace to) {
  const Boxes& boxes = boxes_of(shape);
  for (std::size_t i = 0; i < boxes.list.size(); ++i) {
    const ChunkBox& box = boxes.list[i];
    const std::int64_t count = chunks_in(box.shape);
    require_countable(static_cast<std::int64_t>(table_.chunks.size()) + count);
    const ChunkPiece piece{static_cast<std::uint32_t>(boxes.first + i), from.tile, to.tile,
                           from.offset + box.from_offset, to.offset + box.to_offset};
    const auto number = static_cast<std::uint32_t>(table_.pieces.size());
    for (std::uint32_t j = 0; j < static_cast<std::uint32_t>(count); ++j) table_.chunks.push_back({number, j});
    table_.pieces.push_back(piece);
    if (((box.shape.alignment | piece.from_offset | piece.to_offset) & 15) != 0) {
      table_.unaligned += static_cast<std::size_t>(count);
    }
  }
}

void ChunkLister::add(const PieceShape& shape, ByteRange range, TilePlace from, TilePlace to) {
  if (range == ByteRange{0, shape.bytes()}) return add(shape, from, to);
  for (const BoxPart& part : cut_range(shape, range)) {
    add(part.shape, {from.tile, from.offset + part.from_offset}, {to.tile, to.offset + part.to_offset});
  }
}

ChunkRange ChunkLister::end_launch() {
  const std::size_t first = std::exchange(launched_, table_.chunks.size());
  sort_by_target(table_, first);
  return {first, launched_ - first};
}

ChunkTable make_chunks(const Streams& streams) {
  ChunkLister lister;
  for (const Stream& stream : streams.streams) {
    for (const StreamPiece& piece : streams.pieces_of(stream)) {
      const std::int64_t first_tile = std::int64_t{piece.array} * streams.device_count;
      lister.add(streams.shapes[piece.shape], {static_cast<std::uint32_t>(first_tile + stream.from), piece.from_offset},
                 {static_cast<std::uint32_t>(first_tile + stream.to), piece.to_offset});
    }
  }
  lister.end_launch();
  return lister.take();
}

}  // namespace retile::cuda
