#include "retile/engines/copy.h"

#include <algorithm>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "retile/base/error.h"
#include "retile/engines/array.h"

namespace retile {
namespace {

constexpr std::int64_t cache_line = 64;  // bytes

// Shorter runs are copied through the caches: their first and last lines are shared with other runs.
constexpr std::int64_t least_streamed = 512;

// Strides of a row-major tile, in bytes.
std::vector<std::int64_t> strides_of(const Box& tile, std::int64_t element_size) {
  (void)checked_bytes(volume(tile), element_size);
  std::vector<std::int64_t> strides(tile.lo.size());
  std::int64_t stride = element_size;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= tile.hi[i] - tile.lo[i];
  }
  return strides;
}

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

#ifdef __SSE2__

// Whole lines of the target are written past the caches.
void stream_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  const auto misaligned = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % cache_line);
  const std::int64_t head = (cache_line - misaligned) % cache_line;
  copy_bytes(to, from, head);
  const std::int64_t end = head + (bytes - head) / cache_line * cache_line;
  for (std::int64_t i = head; i < end; i += cache_line) {
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  copy_bytes(to + end, from + end, bytes - end);
}

// Streamed bytes are seen by other threads only in order with this.
void finish_streaming() { _mm_sfence(); }

#else

void stream_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) { copy_bytes(to, from, bytes); }
void finish_streaming() {}

#endif

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

BoxCopy::BoxCopy(const Box& from, const Box& to, const Box& box, std::int64_t element_size) : run_bytes_(element_size) {
  ensure(element_size >= 1 && contains(from, box) && contains(to, box), "a copy's box lies in both tiles");
  const std::vector<std::int64_t> from_strides = strides_of(from, element_size);
  const std::vector<std::int64_t> to_strides = strides_of(to, element_size);
  for (std::size_t i = box.lo.size(); i-- > 0;) {
    from_offset_ += (box.lo[i] - from.lo[i]) * from_strides[i];
    to_offset_ += (box.lo[i] - to.lo[i]) * to_strides[i];
    add_loop({box.hi[i] - box.lo[i], from_strides[i], to_strides[i]});
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

void BoxCopy::run(const std::byte* from_tile, std::byte* to_tile, Stores stores) const {
  run(from_tile, to_tile, {0, bytes()}, stores);
}

void BoxCopy::run(const std::byte* from_tile, std::byte* to_tile, ByteRange range, Stores stores) const {
  copy_range({from_tile, to_tile, from_offset_, to_offset_}, range, stores);
}

std::int64_t BoxCopy::range_length(std::int64_t about) const {
  for (const std::int64_t slab : slab_bytes_) {
    if (slab <= about) return about / slab * slab;
  }
  return std::max(cache_line, about / cache_line * cache_line);
}

void BoxCopy::copy_range(const Place& place, ByteRange range, Stores stores) const {
  ensure(0 <= range.begin && range.begin <= range.end && range.end <= bytes(), "a range lies in its copy");
  if (run_bytes_ < least_streamed) stores = Stores::cached;
  copy_part(0, place, range, stores);
  if (stores == Stores::streaming) finish_streaming();
}

// A range of all iterations of a loop: the end of one, whole ones, the start of one.
void BoxCopy::copy_part(std::size_t level, const Place& place, ByteRange range, Stores stores) const {
  if (level == loops_.size()) {
    const auto copy = stores == Stores::streaming && range.size() >= least_streamed ? stream_bytes : copy_bytes;
    if (range.size() > 0)
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

void BoxCopy::copy_runs(const Place& place, const Loop& outer, const Loop& inner, Stores stores) const {
  const auto copy_each = [&](auto copy_run) {
    for (std::int64_t i = 0; i < outer.count; ++i) {
      const std::byte* from = place.from + (place.from_offset + i * outer.from_stride);
      std::byte* to = place.to + (place.to_offset + i * outer.to_stride);
      for (std::int64_t j = 0; j < inner.count; ++j) copy_run(to + j * inner.to_stride, from + j * inner.from_stride);
    }
  };
  const std::int64_t bytes = run_bytes_;
  if (bytes == 1) return copy_each(ExactRun<1>());
  if (bytes == 2) return copy_each(ExactRun<2>());
  if (bytes == 4) return copy_each(ExactRun<4>());
  if (bytes == 8) return copy_each(ExactRun<8>());
  if (bytes == 16) return copy_each(ExactRun<16>());
  if (bytes < 4) return copy_each(OverlappingRun<2>(bytes));
  if (bytes < 8) return copy_each(OverlappingRun<4>(bytes));
  if (bytes < 16) return copy_each(OverlappingRun<8>(bytes));
  if (bytes <= 32) return copy_each(OverlappingRun<16>(bytes));
  if (bytes <= 64) return copy_each(OverlappingRun<32>(bytes));
  if (stores == Stores::streaming) {
    return copy_each([bytes](std::byte* to, const std::byte* from) { stream_bytes(to, from, bytes); });
  }
  copy_each([bytes](std::byte* to, const std::byte* from) { copy_bytes(to, from, bytes); });
}

void BoxPacking::pack(const std::byte* tile, ByteRange range, std::byte* piece) const {
  pack_.copy_range({tile, piece, pack_.from_offset_, -range.begin}, range, Stores::cached);
}

void BoxPacking::unpack(const std::byte* piece, ByteRange range, std::byte* tile) const {
  unpack_.copy_range({piece, tile, -range.begin, unpack_.to_offset_}, range, Stores::cached);
}

}  // namespace retile
