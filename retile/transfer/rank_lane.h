// Lanes of one rank in a transfer: how their pieces lie in its memory, are packed, lent and borrowed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/base/mixing.h"
#include "retile/copies/block_scales.h"
#include "retile/copies/convert.h"
#include "retile/copies/copy.h"
#include "retile/schedule/streams.h"
#include "retile/transfer/lent_pieces.h"
#include "retile/transfer/message_header.h"
#include "retile/types/element_type.h"

namespace retile::transfer {

// Bytes that are converted, checked or copied at once, in the first-level cache. So few that the processor computes the
// checksum of a block while it still waits for memory of its neighbours: with 16 KiB, checksums take nearly twice as
// long.
constexpr std::int64_t block_bytes = 4 << 10;

// A box of an array whose elements are scaled block by block; none: they are sent as they are.
struct Scaling {
  const BlockScales* scales = nullptr;
  Box box;
};

// How boxes lie in memory, and what their elements are converted to. Pieces are many, and such forms few but where
// elements are scaled.
struct Packing {
  PieceForm form;
  BoxPacking box;
  ElementType stored;
  ElementType sent;
  Scaling scaling;

  void convert(std::int64_t begin, std::int64_t count, const std::byte* in, std::byte* out) const {
    if (scaling.scales == nullptr) return convert_elements(stored, sent, count, in, out);
    scaling.scales->convert(stored, scaling.box, begin, count, in, out);
  }

  // The bytes of a range of the box as it is sent.
  void pack(const std::byte* first, ByteRange range, std::byte* out) const {
    if (stored == sent) return box.pack(first, range, out);
    const std::int64_t size = bytes_of(sent);
    const std::int64_t stored_size = bytes_of(stored);
    std::array<std::byte, block_bytes> elements;   // NOLINT(*-member-init): filled before it is read
    std::array<std::byte, block_bytes> converted;  // NOLINT(*-member-init): likewise
    const std::int64_t most = block_bytes / std::max(size, stored_size);
    const std::int64_t end = divide_up(range.end, size);
    for (std::int64_t begin = range.begin / size; begin < end; begin += most) {
      const std::int64_t count = std::min(most, end - begin);
      box.pack(first, {begin * stored_size, (begin + count) * stored_size}, elements.data());
      convert(begin, count, elements.data(), converted.data());
      // Rounds cut streams between bytes: an element may be there in part.
      const ByteRange kept{std::max(range.begin, begin * size), std::min(range.end, (begin + count) * size)};
      std::memcpy(out + (kept.begin - range.begin), converted.data() + (kept.begin - begin * size),
                  static_cast<std::size_t>(kept.size()));
    }
  }
};

class Packings {
 public:
  std::uint32_t number_of(const Shape& extent, const Strides& strides, ElementType stored, ElementType sent,
                          const Scaling& scaling) {
    const auto [found, is_new] = numbers_.try_emplace({extent, strides, stored, sent, scaling.scales, scaling.box.lo},
                                                      static_cast<std::uint32_t>(packings_.size()));
    if (is_new) {
      const Box box = box_at(Shape(extent.size()), extent);
      DimensionOrder order(extent.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      packings_.push_back({{extent, strides, bytes_of(stored)},
                           BoxPacking({box, strides}, box, bytes_of(stored), order),
                           stored,
                           sent,
                           scaling});
    }
    return found->second;
  }
  const Packing& operator[](std::uint32_t number) const { return packings_[number]; }

 private:
  std::map<std::tuple<Shape, Strides, ElementType, ElementType, const BlockScales*, Shape>, std::uint32_t> numbers_;
  std::deque<Packing> packings_;  // which stay where they are
};

// A box in the rank's memory.
struct LaidPiece {
  std::byte* first;
  std::uint32_t packing;
  std::uint32_t array;
  std::int64_t end;  // bytes of the stream up to its end
};

// What goes between the rank and a peer in one phase and direction.
struct Lane {
  Device peer = 0;
  std::int64_t bytes = 0;
  std::int64_t staged = 0;  // where its messages begin in the staging of a round
  std::vector<LaidPiece> pieces;
  std::vector<std::uint64_t> digests;  // of what was packed last, by round; 0: nothing
  // Where its receiver may read from the sender's memory.
  std::optional<LentTable> table;  // of the sender
  std::optional<LentPieces> lent;  // of the receiver
  ReadOffer offer;
  bool is_read = false;  // in this execution

  bool has_offers() const { return table || lent; }
};

// visit(piece, the range of its bytes, where they begin in the range) for the pieces in a range of a lane.
template <typename Visit>
void visit_range(const Lane& lane, ByteRange range, Visit visit) {
  auto piece = std::upper_bound(lane.pieces.begin(), lane.pieces.end(), range.begin,
                                [](std::int64_t at, const LaidPiece& one) { return at < one.end; });
  std::int64_t begin = piece == lane.pieces.begin() ? 0 : std::prev(piece)->end;
  for (std::int64_t at = range.begin; at < range.end; begin = piece->end, ++piece) {
    const std::int64_t end = std::min(range.end, piece->end);
    visit(*piece, ByteRange{at - begin, end - begin}, at - range.begin);
    at = end;
  }
}

// The mixing of each word is bijective: what differs in one word never has the same digest. Never 0.
inline std::uint64_t digest_of(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, 4> lanes{1, 2, 3, 4};
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15U;
  const auto add = [&](const std::byte* words) {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, words + 8 * i, sizeof word);
      lanes[i] = (lanes[i] ^ word) * factor;
      lanes[i] ^= lanes[i] >> 32U;
    }
  };
  std::size_t at = 0;
  for (; at + 32 <= bytes.size(); at += 32) add(bytes.data() + at);
  std::array<std::byte, 32> rest{};
  std::memcpy(rest.data(), bytes.data() + at, bytes.size() - at);
  add(rest.data());
  std::uint64_t digest = 0;
  for (const std::uint64_t lane : lanes) digest = mix_bits(digest ^ lane);
  return std::max<std::uint64_t>(1, digest);
}

}  // namespace retile::transfer
