#include "retile/copies/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "retile/base/error.h"

namespace retile {
namespace {

constexpr std::int64_t cache_line = 64;  // bytes

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

bool is_aligned(const std::byte* address, std::int64_t alignment) {
  return reinterpret_cast<std::uintptr_t>(address) % static_cast<std::uintptr_t>(alignment) == 0;
}

// --- Stores around the caches: a target line is not read before it is written, and nothing else is evicted for it.
// Streaming stores pay where whole lines are written at once; a line that is written in parts, with others in between,
// costs more.

constexpr std::int64_t word = 4;     // bytes of the smallest streaming store
constexpr std::int64_t vector = 16;  // of those that all processors have
constexpr std::int64_t wide = 32;    // and of the largest: half as many take little more than half the time

// Longer runs are streamed wherever they lie: their first and last lines, written in part, weigh little. These go
// through the caches too where runs are not made of pairs of words: single words around them take longer.
constexpr std::int64_t least_streamed = 256;
// Runs that follow each other in the target are joined to lines on their way; shorter ones are not worth it.
constexpr std::int64_t least_joined = 16;

#ifdef __SSE2__

constexpr bool has_streaming = true;

void stream_word(std::byte* to, const std::byte* from) {
  int value = 0;
  std::memcpy(&value, from, sizeof value);
  _mm_stream_si32(reinterpret_cast<int*>(to), value);
}

void stream_vector(std::byte* to, const std::byte* from) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

bool has_wide_stores() {
  static const bool has = __builtin_cpu_supports("avx") != 0;
  return has;
}

// Runs of whole lines, to addresses of wide stores.
[[gnu::target("avx")]] void stream_wide_runs(std::byte* to, const std::byte* from, std::int64_t bytes,
                                             std::int64_t count, std::int64_t to_stride, std::int64_t from_stride) {
  for (; count > 0; --count, to += to_stride, from += from_stride) {
    for (std::int64_t i = 0; i < bytes; i += wide) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    }
  }
}

void fence_streaming() { _mm_sfence(); }

#else

constexpr bool has_streaming = false;

void stream_word(std::byte* to, const std::byte* from) { std::memcpy(to, from, word); }
void stream_vector(std::byte* to, const std::byte* from) { std::memcpy(to, from, vector); }
bool has_wide_stores() { return false; }
void stream_wide_runs(std::byte*, const std::byte*, std::int64_t, std::int64_t, std::int64_t, std::int64_t) {}
void fence_streaming() {}

#endif

// Whole words, to an address of whole words.
[[gnu::always_inline]] inline void stream_words(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const std::byte* const end = from + bytes;
  if (bytes >= least_streamed && has_wide_stores()) {
    for (; !is_aligned(to, wide); to += word, from += word) stream_word(to, from);
    const std::int64_t lines = (end - from) / cache_line * cache_line;
    stream_wide_runs(to, from, lines, 1, 0, 0);
    to += lines;
    from += lines;
  }
  for (; from != end && !is_aligned(to, vector); to += word, from += word) stream_word(to, from);
  for (; end - from >= cache_line; to += cache_line, from += cache_line) {
    for (std::int64_t i = 0; i < cache_line; i += vector) stream_vector(to + i, from + i);
  }
  for (; end - from >= vector; to += vector, from += vector) stream_vector(to, from);
  for (; from != end; to += word, from += word) stream_word(to, from);
}

// Any bytes, to any address: whole lines around the caches.
void stream_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % cache_line);
  const std::int64_t head = std::min(bytes, (cache_line - misaligned) % cache_line);
  const std::int64_t lines = (bytes - head) / cache_line * cache_line;
  copy_bytes(to, from, head);
  stream_words(to + head, from + head, lines);
  copy_bytes(to + head + lines, from + head + lines, bytes - head - lines);
}

// --- Short runs.

// A run of exactly `size` bytes.
template <std::size_t size>
struct ExactRun {
  void operator()(std::byte* to, const std::byte* from) const { std::memcpy(to, from, size); }
};

// A run of `size` to 2 * size bytes, as two copies that overlap.
template <std::size_t size>
struct OverlappingRun {
  std::int64_t second;  // where the second copy starts: size less than the length

  explicit OverlappingRun(std::int64_t bytes) : second(bytes - static_cast<std::int64_t>(size)) {}
  void operator()(std::byte* to, const std::byte* from) const {
    std::byte halves[2][size];
    std::memcpy(halves[0], from, size);
    std::memcpy(halves[1], from + second, size);
    std::memcpy(to, halves[0], size);
    std::memcpy(to + second, halves[1], size);
  }
};

}  // namespace

void finish_stores(Stores stores) {
  if (stores == Stores::streaming) fence_streaming();
}

BoxCopy::BoxCopy(const TileLayout& from, const TileLayout& to, const Box& box, std::int64_t element_size,
                 RangeOrder order)
    : run_bytes_(element_size), from_offset_(from.offset), to_offset_(to.offset) {
  ensure(element_size >= 1 && contains(from.box, box) && contains(to.box, box), "a copy's box lies in both tiles");
  const Strides from_strides = strides_of(from, element_size);
  const Strides to_strides = strides_of(to, element_size);
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    from_offset_ += (box.lo[i] - from.box.lo[i]) * from_strides[i];
    to_offset_ += (box.lo[i] - to.box.lo[i]) * to_strides[i];
  }
  const TileLayout& ordered = order == RangeOrder::of_source ? from : to;
  const DimensionOrder dimensions = ordered.strides.empty() ? DimensionOrder() : order_of(ordered);
  for (std::size_t i = box.lo.size(); i-- > 0;) {
    const std::size_t dimension = dimensions.empty() ? i : dimensions[i];
    add_loop({box.hi[dimension] - box.lo[dimension], from_strides[dimension], to_strides[dimension]});
  }
  if (order == RangeOrder::fast && run_bytes_ < cache_line && loops_.size() > 2) {
    // The loop along the source's lines goes next to the one along the target's.
    const auto lines = std::min_element(loops_.begin(), loops_.end(), [](const Loop& a, const Loop& b) {
      return std::abs(a.from_stride) < std::abs(b.from_stride);
    });
    if (lines != loops_.begin()) std::rotate(loops_.begin() + 1, lines, lines + 1);
  }
  while (loops_.size() < 2) loops_.push_back({});
  std::int64_t slab = run_bytes_;
  for (const Loop& loop : loops_) {
    slab_bytes_.push_back(slab);
    slab *= loop.count;
    run_count_ *= loop.count;
  }
  std::reverse(loops_.begin(), loops_.end());
  std::reverse(slab_bytes_.begin(), slab_bytes_.end());
}

// Puts a loop around those there are, innermost first, or makes it one with the last of them or with the run.
void BoxCopy::add_loop(const Loop& loop) {
  if (loop.count == 1) return;
  if (loops_.empty() && loop.from_stride == run_bytes_ && loop.to_stride == run_bytes_) {
    run_bytes_ *= loop.count;
    return;
  }
  if (!loops_.empty()) {
    Loop& inner = loops_.back();
    if (loop.from_stride == inner.count * inner.from_stride && loop.to_stride == inner.count * inner.to_stride) {
      inner.count *= loop.count;
      return;
    }
  }
  loops_.push_back(loop);
}

BoxCopy::RunPlace BoxCopy::run_place(std::int64_t run) const {
  RunPlace place{from_offset_, to_offset_};
  for (std::size_t i = loops_.size(); i-- > 0;) {
    place.from += run % loops_[i].count * loops_[i].from_stride;
    place.to += run % loops_[i].count * loops_[i].to_stride;
    run /= loops_[i].count;
  }
  return place;
}

// Whether the inner loop goes along the target's lines and the outer one along the source's.
bool BoxCopy::transposes(const Loop& outer, const Loop& inner) const {
  return run_bytes_ < cache_line && std::abs(outer.from_stride) < std::abs(inner.from_stride) &&
         std::abs(outer.to_stride) > std::abs(inner.to_stride);
}

bool BoxCopy::is_transposing() const { return transposes(loops_[loops_.size() - 2], loops_.back()); }

void BoxCopy::run(const std::byte* from_tile, std::byte* to_tile, Stores stores) const {
  run(from_tile, to_tile, {0, bytes()}, stores);
}

void BoxCopy::run(const std::byte* from_tile, std::byte* to_tile, ByteRange range, Stores stores) const {
  if (from_tile + from_offset_ == to_tile + to_offset_ && lies_alike()) return;
  copy_range({from_tile, to_tile, from_offset_, to_offset_}, range, stores);
}

bool BoxCopy::lies_alike() const {
  return std::all_of(loops_.begin(), loops_.end(),
                     [](const Loop& loop) { return loop.count == 1 || loop.from_stride == loop.to_stride; });
}

std::int64_t BoxCopy::range_length(std::int64_t about) const {
  for (const std::int64_t slab : slab_bytes_) {
    if (slab <= about) return about / slab * slab;
  }
  return std::max(cache_line, about / cache_line * cache_line);
}

void BoxCopy::copy_range(const Place& place, ByteRange range, Stores stores) const {
  ensure(0 <= range.begin && range.begin <= range.end && range.end <= bytes(), "a range lies in its copy");
  if (range.size() == 0) return;  // there may be no memory
  if (!has_streaming) stores = Stores::cached;
  if (run_count_ == 1 && stores == Stores::cached) {
    copy_bytes(place.to + (place.to_offset + range.begin), place.from + (place.from_offset + range.begin),
               range.size());
    return;
  }
  if (range.size() == bytes()) return copy_whole(0, place, loops_.front().count, stores);
  copy_part(0, place, range, stores);
}

// A range of all iterations of a loop: the end of one, whole ones, the start of one.
void BoxCopy::copy_part(std::size_t level, const Place& place, ByteRange range, Stores stores) const {
  if (level == loops_.size()) {
    const auto copy = stores == Stores::streaming && range.size() >= least_streamed ? stream_bytes : copy_bytes;
    copy(place.to + (place.to_offset + range.begin), place.from + (place.from_offset + range.begin), range.size());
    return;
  }
  const std::int64_t slab = slab_bytes_[level];
  const std::int64_t first = range.begin / slab;
  const std::int64_t last = range.end / slab;
  const auto copy_in_one = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    if (begin < end) copy_part(level + 1, place.at(loops_[level], index), {begin, end}, stores);
  };
  if (first == last) {
    copy_in_one(first, range.begin - first * slab, range.end - first * slab);
    return;
  }
  const bool starts_inside = range.begin > first * slab;
  if (starts_inside) copy_in_one(first, range.begin - first * slab, slab);
  const std::int64_t whole = first + (starts_inside ? 1 : 0);
  if (whole < last) copy_whole(level, place.at(loops_[level], whole), last - whole, stores);
  copy_in_one(last, 0, range.end - last * slab);
}

void BoxCopy::copy_whole(std::size_t level, const Place& place, std::int64_t count, Stores stores) const {
  Loop loop = loops_[level];
  loop.count = count;
  if (level + 1 == loops_.size()) return copy_runs(place, {}, loop, stores);
  if (level + 2 == loops_.size()) return copy_runs(place, loop, loops_.back(), stores);
  for (std::int64_t i = 0; i < count; ++i) copy_whole(level + 1, place.at(loop, i), loops_[level + 1].count, stores);
}

// Whether runs to this address are made of such units.
bool BoxCopy::are_whole(std::int64_t unit, const std::byte* to, const Loop& outer, const Loop& inner) const {
  return is_aligned(to, unit) && run_bytes_ % unit == 0 && outer.to_stride % unit == 0 && inner.to_stride % unit == 0;
}

// Whether runs to this address are made of words that are better written around the caches.
bool BoxCopy::streams_words(const std::byte* to, const Loop& outer, const Loop& inner) const {
  const bool are_joined = inner.to_stride == run_bytes_ && run_bytes_ >= least_joined;
  const auto are_made_of = [&](std::int64_t unit) { return are_whole(unit, to, outer, inner); };
  return (are_made_of(word) && are_joined) || (are_made_of(2 * word) && run_bytes_ >= least_streamed) ||
         are_made_of(cache_line);
}

template <typename CopyRun>
void BoxCopy::copy_each(const Place& place, const Loop& outer, const Loop& inner, CopyRun copy_run) const {
  for (std::int64_t i = 0; i < outer.count; ++i) {
    const std::byte* from = place.from + (place.from_offset + i * outer.from_stride);
    std::byte* to = place.to + (place.to_offset + i * outer.to_stride);
    for (std::int64_t j = 0; j < inner.count; ++j) copy_run(to + j * inner.to_stride, from + j * inner.from_stride);
  }
}

// Reads a line of the source after the other into a block that stays in the first-level cache, whatever their distance,
// and writes from there along the lines of the target.
template <typename CopyRun>
void BoxCopy::copy_transposed(const Place& place, const Loop& outer, const Loop& inner, Stores stores,
                              CopyRun copy_run) const {
  constexpr std::int64_t most_columns = 128;
  alignas(cache_line) std::byte block[most_columns * cache_line];
  alignas(cache_line) std::byte row[most_columns * cache_line];
  const std::int64_t rows_at_once = cache_line / run_bytes_;
  const bool reads_lines = outer.from_stride == run_bytes_;
  const bool streams = stores == Stores::streaming && inner.to_stride == run_bytes_;
  for (std::int64_t column = 0; column < inner.count; column += most_columns) {
    const std::int64_t columns = std::min(most_columns, inner.count - column);
    for (std::int64_t first = 0; first < outer.count; first += rows_at_once) {
      const std::int64_t rows = std::min(rows_at_once, outer.count - first);
      const Place corner = place.at(inner, column).at(outer, first);
      const Loop into_block{columns, inner.from_stride, cache_line};
      const Loop block_rows{rows, outer.from_stride, run_bytes_};
      const Place reading{corner.from, block, corner.from_offset, 0};
      if (reads_lines) {
        const std::int64_t bytes = rows * run_bytes_;
        const auto read_line = [bytes](std::byte* to, const std::byte* from) { copy_bytes(to, from, bytes); };
        if (bytes == cache_line) {
          copy_each(reading, {}, into_block, ExactRun<cache_line>());
        } else {
          copy_each(reading, {}, into_block, read_line);
        }
      } else {
        copy_each(reading, into_block, block_rows, copy_run);
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        const Place along{block, streams ? row : corner.to, i * run_bytes_,
                          streams ? 0 : corner.to_offset + i * outer.to_stride};
        copy_each(along, {}, {columns, cache_line, inner.to_stride}, copy_run);
        if (streams) stream_bytes(corner.to + (corner.to_offset + i * outer.to_stride), row, columns * run_bytes_);
      }
    }
  }
}

void BoxCopy::copy_runs(const Place& place, const Loop& outer, const Loop& inner, Stores stores) const {
  const std::int64_t bytes = run_bytes_;
  const bool turns_back = transposes(inner, outer);
  const bool turns = turns_back || transposes(outer, inner);
  const auto copy_all = [&](auto copy_run) {
    if (!turns) return copy_each(place, outer, inner, copy_run);
    copy_transposed(place, turns_back ? inner : outer, turns_back ? outer : inner, stores, copy_run);
  };
  if (stores == Stores::streaming && !turns) {
    if (has_wide_stores() && are_whole(cache_line, place.to + place.to_offset, outer, inner)) {
      for (std::int64_t i = 0; i < outer.count; ++i) {
        const Place line = place.at(outer, i);
        stream_wide_runs(line.to + line.to_offset, line.from + line.from_offset, bytes, inner.count, inner.to_stride,
                         inner.from_stride);
      }
      return;
    }
    if (streams_words(place.to + place.to_offset, outer, inner)) {
      return copy_each(place, outer, inner,
                       [bytes](std::byte* to, const std::byte* from) { stream_words(to, from, bytes); });
    }
    if (bytes >= least_streamed) {
      return copy_each(place, outer, inner,
                       [bytes](std::byte* to, const std::byte* from) { stream_bytes(to, from, bytes); });
    }
  }
  if (bytes == 1) return copy_all(ExactRun<1>());
  if (bytes == 2) return copy_all(ExactRun<2>());
  if (bytes == 4) return copy_all(ExactRun<4>());
  if (bytes == 8) return copy_all(ExactRun<8>());
  if (bytes == 16) return copy_all(ExactRun<16>());
  if (bytes < 4) return copy_all(OverlappingRun<2>(bytes));
  if (bytes < 8) return copy_all(OverlappingRun<4>(bytes));
  if (bytes < 16) return copy_all(OverlappingRun<8>(bytes));
  if (bytes <= 32) return copy_all(OverlappingRun<16>(bytes));
  if (bytes <= 64) return copy_all(OverlappingRun<32>(bytes));
  copy_each(place, outer, inner, [bytes](std::byte* to, const std::byte* from) { copy_bytes(to, from, bytes); });
}

BoxPacking::BoxPacking(const TileLayout& tile, const Box& box, std::int64_t element_size, const DimensionOrder& order)
    : pack_(tile, {box, packed_strides(box, element_size, order)}, box, element_size, BoxCopy::RangeOrder::of_target),
      unpack_({box, packed_strides(box, element_size, order)}, tile, box, element_size,
              BoxCopy::RangeOrder::of_source) {}

void BoxPacking::pack(const std::byte* tile, ByteRange range, std::byte* piece) const {
  pack_.copy_range({tile, piece, pack_.from_offset_, -range.begin}, range, Stores::cached);
}

void BoxPacking::unpack(const std::byte* piece, ByteRange range, std::byte* tile, Stores stores) const {
  unpack_.copy_range({piece, tile, -range.begin, unpack_.to_offset_}, range, stores);
}

}  // namespace retile
