#include "retile/files/rechunk_run.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/copies/copy.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/files/cut_dimension.h"
#include "retile/grids/grid.h"
#include "retile/memory/rows.h"

namespace retile::files {
namespace {

// The next of all combinations of numbers below `counts`, the last dimension of `order` fastest. False after the last.
bool next_combination(std::vector<std::size_t>& numbers, const std::vector<std::size_t>& counts,
                      const DimensionOrder& order) {
  for (std::size_t i = order.size(); i-- > 0;) {
    if (++numbers[order[i]] < counts[order[i]]) return true;
    numbers[order[i]] = 0;
  }
  return false;
}

// --- What is read, in order.

// A part of the array that is read at once.
struct Item {
  Box unit;    // what is decoded; may reach beyond the array
  Box wanted;  // of it
};

// What is read of one dimension of a region, piece by piece. Pieces end where chunks do, and every chunk is cut anew.
class RegionCuts {
 public:
  RegionCuts() = default;
  // `start` is where the first piece begins, at or before the region.
  RegionCuts(Interval region, std::int64_t start, std::int64_t chunk, std::int64_t extent)
      : region_(region),
        start_(start),
        first_end_((start / chunk + 1) * chunk),
        first_pieces_(divide_up(first_end_ - start_, extent)),
        cut_{0, chunk, extent} {}

  std::size_t count() const { return static_cast<std::size_t>(piece_at(region_.hi - 1) + 1); }

  // All elements of a piece, those beyond the region included.
  Interval piece(std::size_t number) const {
    const auto at = static_cast<std::int64_t>(number);
    if (at >= first_pieces_) {
      const Interval later = cut_.unit_interval(at - first_pieces_);
      return {first_end_ + later.lo, first_end_ + later.hi};
    }
    const std::int64_t begin = start_ + at * cut_.unit;
    return {begin, std::min(begin + cut_.unit, first_end_)};
  }
  Interval wanted(std::size_t number) const { return intersect(piece(number), region_); }

  // Pieces that meet elements, some of which are in the region.
  std::int64_t count_meeting(Interval elements) const {
    const Interval shared = intersect(elements, region_);
    return piece_at(shared.hi - 1) - piece_at(shared.lo) + 1;
  }

 private:
  std::int64_t piece_at(std::int64_t element) const {
    return element < first_end_ ? (element - start_) / cut_.unit : first_pieces_ + cut_.unit_at(element - first_end_);
  }

  Interval region_;
  std::int64_t start_ = 0;
  std::int64_t first_end_ = 0;     // of the chunk that holds the start
  std::int64_t first_pieces_ = 0;  // of that chunk
  CutDimension cut_;               // of the chunks behind it
};

// The items of a process's share of a pass: region by region, and in a region along the swept dimension first.
class ItemList {
 public:
  ItemList(const PassPlan& plan, const Processes& processes)
      : plan_(plan), rank_(processes.rank()), ranks_(processes.size()), order_(plan.problem.shape.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    row_major_ = order_;  // NOLINT(*-prefer-member-initializer): before the rotation
    if (plan.swept) {
      const auto swept = order_.begin() + static_cast<std::ptrdiff_t>(*plan.swept);
      std::rotate(order_.begin(), swept, swept + 1);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      region_counts_.push_back(static_cast<std::size_t>(divide_up(plan.problem.shape[i], plan.region[i])));
    }
    region_.resize(order_.size());
    is_mine() ? enter_region() : next_region();
  }

  bool is_over() const { return is_over_; }

  Item current() const {
    Item item;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Interval unit = cuts_[i].piece(number_[i]);
      const Interval wanted = cuts_[i].wanted(number_[i]);
      item.unit.lo.push_back(unit.lo);
      item.unit.hi.push_back(unit.hi);
      item.wanted.lo.push_back(wanted.lo);
      item.wanted.hi.push_back(wanted.hi);
    }
    return item;
  }

  void advance() {
    if (!next_combination(number_, counts_, order_)) next_region();
  }

  // Items of the current region that meet these elements, which are some of it.
  std::int64_t count_meeting(const Box& box) const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < order_.size(); ++i) count *= cuts_[i].count_meeting({box.lo[i], box.hi[i]});
    return count;
  }

 private:
  // Shares go to processes in turn.
  bool is_mine() const {
    std::int64_t share = 0;
    for (std::size_t i = 0; i < region_.size(); ++i) {
      const Shape& shard = plan_.problem.target.shard;
      const std::int64_t size = plan_.problem.shape[i];
      const std::int64_t extent = share_extent(plan_.region[i], shard.empty() ? 0 : shard[i], size);
      share = share * divide_up(size, extent) + static_cast<std::int64_t>(region_[i]) * plan_.region[i] / extent;
    }
    return share % ranks_ == rank_;
  }

  void next_region() {
    do {
      is_over_ = !next_combination(region_, region_counts_, row_major_);
    } while (!is_over_ && !is_mine());
    if (!is_over_) enter_region();
  }

  void enter_region() {
    cuts_.clear();
    counts_.clear();
    number_.assign(order_.size(), 0);
    const Shape ranges = plan_.mode == ReadMode::ranges ? range_shape() : Shape();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      cuts_.push_back(plan_.mode == ReadMode::ranges ? range_cuts(i, ranges[i]) : unit_cuts(i));
      counts_.push_back(cuts_.back().count());
    }
  }

  RegionCuts unit_cuts(std::size_t dimension) const {
    const PassProblem& problem = plan_.problem;
    const CutDimension cut{problem.shape[dimension], problem.source.chunk[dimension], problem.source.unit[dimension]};
    const Interval region = region_interval(dimension);
    return {region, cut.unit_interval(cut.unit_at(region.lo)).lo, cut.chunk, cut.unit};
  }

  RegionCuts range_cuts(std::size_t dimension, std::int64_t extent) const {
    const Interval region = region_interval(dimension);
    return {region, region.lo, plan_.problem.source.chunk[dimension], extent};
  }

  Interval region_interval(std::size_t dimension) const {
    const Interval tile = tile_interval(static_cast<std::int64_t>(region_[dimension]), plan_.region[dimension]);
    return {tile.lo, std::min(tile.hi, plan_.problem.shape[dimension])};
  }

  // Extents of ranges that are read at once: as large as may be, cut along the outermost dimensions of the source.
  Shape range_shape() const {
    Shape shape;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      shape.push_back(std::min(plan_.problem.source.chunk[i], region_interval(i).size()));
    }
    std::int64_t room = std::max<std::int64_t>(1, most_range_bytes / plan_.problem.element_size);
    for (std::size_t i = shape.size(); i-- > 0;) {
      std::int64_t& extent = shape[plan_.problem.source.order[i]];
      extent = std::min(extent, room);
      room = std::max<std::int64_t>(1, room / extent);
    }
    return shape;
  }

  const PassPlan& plan_;
  int rank_;
  int ranks_;
  DimensionOrder order_;      // of items in a region, outermost first
  DimensionOrder row_major_;  // of regions
  std::vector<std::size_t> region_counts_;
  std::vector<std::size_t> region_;
  std::vector<RegionCuts> cuts_;  // of the current region, by dimension
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> number_;
  bool is_over_ = false;
};

// --- Target chunks in memory.

struct OpenChunk {
  Shape number;
  Box box;  // with what is beyond the array
  std::byte* data = nullptr;
  std::atomic<std::int64_t> lacks = 0;  // items
  std::atomic<bool> has_data = false;   // not only fill values
};

// A part of an item that goes into a chunk.
struct Piece {
  OpenChunk* chunk = nullptr;
  Box box;
};

struct Task {
  Item item;
  std::vector<Piece> pieces;
};

// Hands out items in order, each with the chunks that it goes into. A thread that finds no room for a new chunk waits
// until one is written. Nobody waits for ever: items are handed out in order, and in order no more chunks are open than
// the plan says, so that there is room unless complete chunks are still being written.
class Schedule {
 public:
  Schedule(const PassPlan& plan, const ChunkTarget& target, std::int64_t room, const Processes& processes)
      : array_(target.array()), target_(target), items_(plan, processes), chunk_bytes_(array_.chunk_bytes()) {
    const std::int64_t most = 2 * (plan.open_chunks + plan.threads);  // so that reading and writing overlap
    std::int64_t all = 1;
    for (std::size_t i = 0; i < array_.shape.size(); ++i) all *= divide_up(array_.shape[i], array_.chunk[i]);
    const std::int64_t chunks = std::min(all, std::max(plan.open_chunks, std::min(room / chunk_bytes_, most)));
    memory_ = make_page_buffer(static_cast<std::size_t>(chunks * chunk_bytes_));
    for (std::int64_t i = chunks; i-- > 0;) free_.push_back(memory_.data() + i * chunk_bytes_);
  }

  // Nothing after the last one, or after a failure.
  std::optional<Task> next() {
    const std::lock_guard order(issuing_);
    while (!items_.is_over()) {
      Task task{items_.current(), {}};
      if (!open_pieces(task)) return std::nullopt;
      items_.advance();
      if (!task.pieces.empty()) return task;
    }
    return std::nullopt;
  }

  void release(OpenChunk* chunk) {
    const std::lock_guard lock(mutex_);
    free_.push_back(chunk->data);
    open_.erase(chunk->number);
    freed_.notify_one();
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    freed_.notify_all();
  }

 private:
  // Those of the item, in chunks that are opened where they are not. False after a failure.
  bool open_pieces(Task& task) {
    const Box& wanted = task.item.wanted;
    Shape first;
    std::vector<std::size_t> counts;
    DimensionOrder order;
    for (std::size_t i = 0; i < wanted.lo.size(); ++i) {
      first.push_back(wanted.lo[i] / array_.chunk[i]);
      counts.push_back(static_cast<std::size_t>((wanted.hi[i] - 1) / array_.chunk[i] - first[i] + 1));
      order.push_back(i);
    }
    std::vector<std::size_t> offset(first.size());
    do {
      Shape number = first;
      Shape corner;
      for (std::size_t i = 0; i < first.size(); ++i) {
        number[i] += static_cast<std::int64_t>(offset[i]);
        corner.push_back(tile_interval(number[i], array_.chunk[i]).lo);
      }
      const Box box = box_at(corner, array_.chunk);
      std::unique_lock lock(mutex_);
      if (failed_) return false;
      const auto found = open_.find(number);
      OpenChunk* chunk = found == open_.end() ? nullptr : found->second.get();
      if (chunk == nullptr && !target_.is_done(number)) chunk = open(number, box, lock);
      if (failed_) return false;
      if (chunk != nullptr) task.pieces.push_back({chunk, *intersect(box, wanted)});
    } while (next_combination(offset, counts, order));
    return true;
  }

  OpenChunk* open(const Shape& number, const Box& box, std::unique_lock<std::mutex>& lock) {
    freed_.wait(lock, [&] { return failed_ || !free_.empty(); });
    if (failed_) return nullptr;
    auto chunk = std::make_unique<OpenChunk>();
    chunk->number = number;
    chunk->box = box;
    chunk->data = free_.back();
    free_.pop_back();
    const Box inside = *intersect(box, box_at(Shape(number.size()), array_.shape));
    chunk->lacks = items_.count_meeting(inside);
    if (inside != box) fill(chunk->data);
    return (open_[number] = std::move(chunk)).get();
  }

  void fill(std::byte* data) const {
    if (!array_.fill) {
      std::memset(data, 0, static_cast<std::size_t>(chunk_bytes_));
      return;
    }
    const auto size = static_cast<std::int64_t>(array_.fill->size());
    for (std::int64_t i = 0; i < chunk_bytes_; i += size)
      std::memcpy(data + i, array_.fill->data(), array_.fill->size());
  }

  const StoredArray& array_;
  const ChunkTarget& target_;
  std::mutex issuing_;  // held while an item is handed out: guards items_
  ItemList items_;
  std::int64_t chunk_bytes_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable freed_;
  Buffer memory_;
  std::vector<std::byte*> free_;
  std::map<Shape, std::unique_ptr<OpenChunk>> open_;
  bool failed_ = false;
};

// What one thread does: all of an item, and the chunks that it completes.
class PassWorker {
 public:
  PassWorker(const PassPlan& plan, const ChunkSource& source, ChunkTarget& target, Schedule& schedule)
      : plan_(plan),
        target_(target),
        schedule_(schedule),
        reader_(source),
        codecs_(target.array().codecs, target.array().chunk_bytes()) {
    if (!codecs_.is_plain()) encoded_ = make_page_buffer(static_cast<std::size_t>(codecs_.most_encoded_bytes()));
  }

  // Decoded bytes.
  std::int64_t run(const Task& task) {
    const Item& item = task.item;
    const ReadElements elements =
        plan_.mode == ReadMode::ranges ? reader_.read_range(item.wanted) : reader_.read_unit(item.unit);
    for (const Piece& piece : task.pieces) {
      const BoxCopy copy(elements.layout, TileLayout(piece.chunk->box), piece.box, plan_.problem.element_size);
      copy.run(elements.data, piece.chunk->data);
      if (!elements.is_missing) piece.chunk->has_data = true;
    }
    for (const Piece& piece : task.pieces) {
      if (--piece.chunk->lacks == 0) finish(*piece.chunk);
    }
    return volume(plan_.mode == ReadMode::ranges ? item.wanted : item.unit) * plan_.problem.element_size;
  }

  const PassStatistics& statistics() const { return statistics_; }

 private:
  void finish(OpenChunk& chunk) {
    const std::span<const std::byte> bytes(chunk.data, static_cast<std::size_t>(target_.array().chunk_bytes()));
    if (chunk.has_data || target_.stores_all()) {
      target_.write(chunk.number, codecs_.encode(bytes, {encoded_.data(), encoded_.size()}));
      statistics_.written_bytes += static_cast<std::int64_t>(bytes.size());
      ++statistics_.written_chunks;
    } else {
      target_.leave_out(chunk.number);
    }
    schedule_.release(&chunk);
  }

  const PassPlan& plan_;
  ChunkTarget& target_;
  Schedule& schedule_;
  ChunkReader reader_;
  CodecChain codecs_;
  Buffer encoded_;
  PassStatistics statistics_;
};

// --- Checksums.

// The checksum of elements that lie `stride` bytes apart; the first has the number `first` in the array.
std::uint64_t row_checksum(const std::byte* row, std::int64_t count, std::int64_t size, std::int64_t stride,
                           std::int64_t first) {
  std::uint64_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t element = 0;
    for (std::int64_t at = 0; at < size; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, row + i * stride + at, static_cast<std::size_t>(std::min<std::int64_t>(8, size - at)));
      element = mix_bits(element ^ word);
    }
    sum += mix_bits(element + static_cast<std::uint64_t>(first + i));
  }
  return sum;
}

std::uint64_t box_checksum(const ReadElements& elements, const Box& box, const Shape& shape, std::int64_t size) {
  const Strides strides = strides_of(elements.layout, size);
  const Box whole = box_at(Shape(shape.size()), shape);
  std::uint64_t sum = 0;
  for_each_row(box, size, [&](const Shape& first, std::size_t row_bytes) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < first.size(); ++i) offset += (first[i] - elements.layout.box.lo[i]) * strides[i];
    sum += row_checksum(elements.data + offset, static_cast<std::int64_t>(row_bytes) / size, size,
                        strides.empty() ? size : strides.back(), element_number(whole, first));
  });
  return sum;
}

}  // namespace

PassStatistics run_pass(const PassPlan& plan, const ChunkSource& source, ChunkTarget& target, std::int64_t room,
                        const Processes& processes, const ReportProgress& report) {
  Schedule schedule(plan, target, room, processes);
  PassStatistics total;
  std::mutex mutex;  // guards the total
  WorkerPool pool(plan.threads);
  pool.for_each(static_cast<std::size_t>(plan.threads), [&](std::size_t) {
    try {
      PassWorker worker(plan, source, target, schedule);
      while (const std::optional<Task> task = schedule.next()) {
        const std::int64_t bytes = worker.run(*task);
        const std::lock_guard lock(mutex);
        total.read_bytes += bytes;
        if (report) report(total.read_bytes);
      }
      const std::lock_guard lock(mutex);
      total.written_bytes += worker.statistics().written_bytes;
      total.written_chunks += worker.statistics().written_chunks;
    } catch (...) {
      schedule.fail();
      throw;
    }
  });
  target.finish();
  return total;
}

std::uint64_t checksum(const ChunkSource& source, int most_threads, std::int64_t room, const Processes& processes) {
  const StoredArray& array = source.array;
  if (array.is_empty()) return 0;
  // The items of a pass whose only region is the array.
  PassProblem problem{array.shape, array.element.bytes, {array.chunk, source.unit, array.order}, {array.shape}};
  const bool is_range = array.codecs.empty();
  PassPlan plan{problem, is_range ? ReadMode::ranges : ReadMode::units, std::nullopt, array.shape};
  const std::int64_t reading = is_range ? range_reading_bytes(array) : unit_reading_bytes(source);
  const auto threads = static_cast<int>(std::clamp<std::int64_t>(room / reading, 1, most_threads));
  ItemList items(plan, one_process());
  std::int64_t number = 0;  // of items that were taken
  std::mutex mutex;         // guards both
  std::atomic<std::uint64_t> sum = 0;
  WorkerPool pool(threads);
  pool.for_each(static_cast<std::size_t>(threads), [&](std::size_t) {
    ChunkReader reader(source);
    for (;;) {
      std::unique_lock lock(mutex);
      if (items.is_over()) return;
      const Item item = items.current();
      items.advance();
      if (number++ % processes.size() != processes.rank()) continue;
      lock.unlock();
      const ReadElements elements = is_range ? reader.read_range(item.wanted) : reader.read_unit(item.unit);
      sum += box_checksum(elements, item.wanted, array.shape, array.element.bytes);
    }
  });
  std::uint64_t total = sum;
  processes.add_up(std::span(&total, 1));
  return total;
}

}  // namespace retile::files
