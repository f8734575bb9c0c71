#include "retile/files/rechunk_run.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/copies/copy.h"
#include "retile/engines/threads/worker_pool.h"
#include "retile/files/item_list.h"
#include "retile/grids/grid.h"
#include "retile/memory/rows.h"

namespace retile::files {
namespace {

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

// What a thread does next: an item, or a complete chunk that is to be written.
using Work = std::variant<Task, OpenChunk*>;

// The chunks that an item meets, one after the other.
class MetChunks {
 public:
  MetChunks(const Box& wanted, const Shape& chunk) : offset_(chunk.size()) {
    for (std::size_t i = 0; i < chunk.size(); ++i) {
      first_.push_back(wanted.lo[i] / chunk[i]);
      counts_.push_back(static_cast<std::size_t>((wanted.hi[i] - 1) / chunk[i] - first_[i] + 1));
      order_.push_back(i);
    }
  }

  bool is_over() const { return is_over_; }
  Shape number() const {
    Shape number = first_;
    for (std::size_t i = 0; i < number.size(); ++i) number[i] += static_cast<std::int64_t>(offset_[i]);
    return number;
  }
  void advance() { is_over_ = !next_combination(offset_, counts_, order_); }

 private:
  Shape first_;
  std::vector<std::size_t> counts_;
  std::vector<std::size_t> offset_;
  DimensionOrder order_;
  bool is_over_ = false;
};

// Hands out work: complete chunks before all else, so that there is room; then items in order, each with the chunks
// that it goes into. Many chunks become complete with the same item, so all threads write them. A thread that finds no
// room for a new chunk waits until one is written, or writes one. Nobody waits for ever: in their order, items keep no
// more chunks open than the plan says, so that there is room unless complete chunks are still being written.
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
  std::optional<Work> next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (failed_) return std::nullopt;
      if (!complete_.empty()) {
        OpenChunk* const chunk = complete_.back();
        complete_.pop_back();
        return chunk;
      }
      if (find_pieces()) {
        ++running_;
        return *std::exchange(issued_, std::nullopt);
      }
      if (!issued_ && running_ == 0) return std::nullopt;
      changed_.wait(lock);
    }
  }

  // An item was scattered, and these chunks lack nothing more.
  void finish_item(const std::vector<OpenChunk*>& complete) {
    const std::lock_guard lock(mutex_);
    complete_.insert(complete_.end(), complete.begin(), complete.end());
    --running_;
    changed_.notify_all();
  }

  // A complete chunk was written.
  void release(OpenChunk* chunk) {
    const std::lock_guard lock(mutex_);
    free_.push_back(chunk->data);
    open_.erase(chunk->number);
    changed_.notify_all();
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  // Finds the pieces of the next item, as far as there is room for its chunks. Whether that item can be handed out.
  bool find_pieces() {
    for (;;) {
      if (!issued_) {
        if (items_.is_over()) return false;
        issued_ = Task{items_.current(), {}};
        met_ = MetChunks(issued_->item.wanted, array_.chunk);
      }
      for (; !met_->is_over(); met_->advance()) {
        if (!add_piece(met_->number())) return false;
      }
      items_.advance();
      if (!issued_->pieces.empty()) return true;
      issued_.reset();
    }
  }

  // The item's piece in a chunk, which is opened where it is not, unless an earlier run has written it. False where
  // there is no room.
  bool add_piece(const Shape& number) {
    Shape corner;
    for (std::size_t i = 0; i < number.size(); ++i) corner.push_back(tile_interval(number[i], array_.chunk[i]).lo);
    const Box box = box_at(corner, array_.chunk);
    const auto found = open_.find(number);
    OpenChunk* chunk = found == open_.end() ? nullptr : found->second.get();
    if (chunk == nullptr) {
      if (target_.is_done(number)) return true;
      if (free_.empty()) return false;
      chunk = open(number, box);
    }
    issued_->pieces.push_back({chunk, *intersect(box, issued_->item.wanted)});
    return true;
  }

  OpenChunk* open(const Shape& number, const Box& box) {
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
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  ItemList items_;
  std::optional<Task> issued_;    // the next item, in the making
  std::optional<MetChunks> met_;  // by it: the chunks whose pieces it lacks
  int running_ = 0;               // items that were handed out and are not finished
  std::int64_t chunk_bytes_;
  Buffer memory_;
  std::vector<std::byte*> free_;
  std::map<Shape, std::unique_ptr<OpenChunk>> open_;
  std::vector<OpenChunk*> complete_;  // of these: nobody writes them yet
  bool failed_ = false;
};

// What one thread does: items, and complete chunks.
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
  std::int64_t run(const Work& work) {
    if (const Task* task = std::get_if<Task>(&work)) return scatter(*task);
    write(*std::get<OpenChunk*>(work));
    return 0;
  }

  const PassStatistics& statistics() const { return statistics_; }

 private:
  std::int64_t scatter(const Task& task) {
    const Item& item = task.item;
    const ReadElements elements =
        plan_.mode == ReadMode::ranges ? reader_.read_range(item.wanted) : reader_.read_unit(item.unit);
    for (const Piece& piece : task.pieces) {
      const BoxCopy copy(elements.layout, TileLayout(piece.chunk->box), piece.box, plan_.problem.element_size);
      copy.run(elements.data, piece.chunk->data);
      if (!elements.is_missing) piece.chunk->has_data = true;
    }
    std::vector<OpenChunk*> complete;
    for (const Piece& piece : task.pieces) {
      if (--piece.chunk->lacks == 0) complete.push_back(piece.chunk);
    }
    schedule_.finish_item(complete);
    return volume(plan_.mode == ReadMode::ranges ? item.wanted : item.unit) * plan_.problem.element_size;
  }

  void write(OpenChunk& chunk) {
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
      while (const std::optional<Work> work = schedule.next()) {
        const std::int64_t bytes = worker.run(*work);
        const std::lock_guard lock(mutex);
        total.read_bytes += bytes;
        if (report && bytes > 0) report(total.read_bytes);
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
