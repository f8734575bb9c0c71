#include "retile/copies/block_scales.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/copies/convert.h"
#include "retile/copies/copy.h"

namespace retile {
namespace {

constexpr float largest = 448;         // of f8e4m3fn
constexpr std::int64_t buffer = 4096;  // elements that are converted at once, in the first-level cache

// Absolute values as numbers: in their order, and NaN above all.
std::uint32_t magnitude_of(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

float larger_magnitude(float a, float b) { return std::bit_cast<float>(std::max(magnitude_of(a), magnitude_of(b))); }

float largest_of(const float* values, std::int64_t count) {
  std::uint32_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) most = std::max(most, magnitude_of(values[i]));
  return std::bit_cast<float>(most);
}

std::int32_t bits_of(float value) { return std::bit_cast<std::int32_t>(value); }

// All ones where it holds: loops without branches are vectorized.
std::int32_t mask_of(bool holds) { return -static_cast<std::int32_t>(holds); }

// To the nearest, ties to even, and at most 448; NaN stays NaN.
std::byte to_f8(float value) {
  const std::int32_t bits = bits_of(value);
  const std::int32_t whole_magnitude = bits & 0x7FFFFFFF;
  const std::int32_t magnitude = std::min(whole_magnitude, bits_of(largest));
  // Below 2^-6, numbers are multiples of 2^-9, as they are from 2^14 on in f32.
  constexpr float unit_carrier = 16384;
  const std::int32_t small = bits_of(std::bit_cast<float>(magnitude) + unit_carrier) - bits_of(unit_carrier);
  // Three bits of the fraction stay; the exponent's bias is 7 instead of 127.
  const std::int32_t normal = (magnitude + 0x7FFFF + ((magnitude >> 20) & 1) - (120 << 23)) >> 20;
  const std::int32_t rounded = normal ^ ((small ^ normal) & mask_of(magnitude < (121 << 23)));
  const std::int32_t no_number = mask_of(whole_magnitude > 0x7F800000) & 0x7F;
  return static_cast<std::byte>(((bits >> 24) & 0x80) | rounded | no_number);
}

void scale_row(const float* __restrict in, std::int64_t count, float scale, std::byte* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = to_f8(in[i] * scale);
}

Shape row_major_strides(const Box& box) { return packed_part(box_at(Shape(box.lo.size()), extent_of(box))).strides; }

}  // namespace

BlockScales::BlockScales(Box box, Shape block) : box_(std::move(box)), block_(std::move(block)), blocks_(box_) {
  ensure(!block_.empty() && block_.size() == box_.lo.size() && volume(box_) > 0, "a box with elements has blocks");
  for (std::size_t i = 0; i < block_.size(); ++i) {
    blocks_.lo[i] = box_.lo[i] / block_[i];
    blocks_.hi[i] = divide_up(box_.hi[i], block_[i]);
  }
  table_strides_ = row_major_strides(blocks_);
  const auto count = static_cast<std::size_t>(volume(blocks_));
  maxima_.resize(count);
  scales_.resize(count);
  inverses_.resize(count);
}

bool BlockScales::can_scale(ElementType stored) { return can_convert(stored, ElementType::f32); }

float* BlockScales::add_shared(const Box& blocks) {
  ensure(contains(blocks_, blocks), "a box shares blocks that it touches");
  return shared_.emplace_back(Shared{blocks, std::vector<float>(static_cast<std::size_t>(volume(blocks)))})
      .maxima.data();
}

std::size_t BlockScales::place_of(const Shape& block) const {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < block.size(); ++i) place += (block[i] - blocks_.lo[i]) * table_strides_[i];
  return static_cast<std::size_t>(place);
}

// visit(number of the block, the first of the elements that lie in a row of it, how many): elements count from `begin`.
template <typename Visit>
void BlockScales::visit_segments(const Box& inside, std::int64_t begin, std::int64_t count, Visit visit) const {
  const std::size_t last = block_.size() - 1;
  const Shape extent = extent_of(inside);
  Shape block(block_.size());
  for (std::int64_t at = 0; at < count;) {
    std::int64_t row = (begin + at) / extent[last];
    const std::int64_t row_end = std::min(count, (row + 1) * extent[last] - begin);
    for (std::size_t i = last; i-- > 0; row /= extent[i]) block[i] = (inside.lo[i] + row % extent[i]) / block_[i];
    std::int64_t column = inside.lo[last] + (begin + at) % extent[last];
    block[last] = column / block_[last];
    for (std::size_t place = place_of(block); at < row_end; ++place) {
      const std::int64_t length = std::min(row_end - at, block_[last] - column % block_[last]);
      visit(place, at, length);
      at += length;
      column += length;
    }
  }
}

void BlockScales::measure(const std::byte* first, const Strides& strides, ElementType stored) {
  std::fill(maxima_.begin(), maxima_.end(), 0.0F);
  const std::int64_t size = bytes_of(stored);
  DimensionOrder order(block_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const BoxPacking packing({box_, strides_of({box_, strides}, size)}, box_, size, order);
  std::array<std::byte, buffer * 8> elements;  // NOLINT(*-member-init): filled before it is read
  std::array<float, buffer> values;            // NOLINT(*-member-init): likewise
  const std::int64_t all = volume(box_);
  for (std::int64_t begin = 0; begin < all; begin += buffer) {
    const std::int64_t count = std::min(buffer, all - begin);
    packing.pack(first, {begin * size, (begin + count) * size}, elements.data());
    convert_elements(stored, ElementType::f32, count, elements.data(),
                     std::as_writable_bytes(std::span(values)).data());
    visit_segments(box_, begin, count, [&](std::size_t block, std::int64_t at, std::int64_t length) {
      maxima_[block] = larger_magnitude(maxima_[block], largest_of(values.data() + at, length));
    });
  }
}

void BlockScales::finish() {
  for (const Shared& shared : shared_) {
    Shape block = shared.blocks.lo;
    for (const float maximum : shared.maxima) {
      float& own = maxima_[place_of(block)];
      own = larger_magnitude(own, maximum);
      for (std::size_t i = block.size(); i-- > 0;) {  // the next one
        if (++block[i] < shared.blocks.hi[i]) break;
        block[i] = shared.blocks.lo[i];
      }
    }
  }
  for (std::size_t i = 0; i < maxima_.size(); ++i) {
    const float scale = 1 / maxima_[i] * largest;  // as PyTorch divides a number by a tensor
    scales_[i] = scale == 0 || std::isinf(scale) ? 1 : scale;
    inverses_[i] = 1 / scales_[i];
  }
}

void BlockScales::convert(ElementType stored, const Box& inside, std::int64_t begin, std::int64_t count,
                          const std::byte* in, std::byte* out) const {
  std::array<float, buffer> values;  // NOLINT(*-member-init): filled before it is read
  for (std::int64_t done = 0; done < count; done += buffer) {
    const std::int64_t part = std::min(buffer, count - done);
    convert_elements(stored, ElementType::f32, part, in + done * bytes_of(stored),
                     std::as_writable_bytes(std::span(values)).data());
    visit_segments(inside, begin + done, part, [&](std::size_t block, std::int64_t at, std::int64_t length) {
      scale_row(values.data() + at, length, scales_[block], out + done + at);
    });
  }
}

}  // namespace retile
