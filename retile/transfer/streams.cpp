#include "retile/transfer/streams.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "retile/base/error.h"

namespace retile::transfer {
namespace {

class StreamMaker {
 public:
  StreamMaker(const TransferPlan& plan, std::span<const Device> devices, std::span<const BufferStrides> strides,
              bool is_relay)
      : plan_(plan), devices_(devices), strides_(strides), is_relay_(is_relay) {
    streams_.device_count = plan.device_count();
    streams_.array_count = plan.manifest().arrays.size();
    streams_.rounds = std::max<std::int64_t>(1, plan.rounds(is_relay));
    streams_.rounds_in_flight = rounds_in_flight;
    streams_.are_shapes_common =
        std::all_of(strides.begin(), strides.end(), [](const BufferStrides& one) { return one.are_packed(); });
  }

  Streams make() {
    for (const Device device : is_relay_ ? std::span<const Device>() : devices_) {
      plan_.visit_kept(device, [&](const Piece& piece) { pieces_.push_back(piece); });
      add_stream(device, device);
    }
    for (const TransferPlan::Stream& stream : plan_.streams()) {
      if (stream.is_relay != is_relay_ || (!slot_of(stream.from) && !slot_of(stream.to))) continue;
      plan_.visit_pieces(stream, [&](const Piece& piece) { pieces_.push_back(piece); });
      add_stream(stream.from, stream.to);
    }
    std::sort(streams_.streams.begin(), streams_.streams.end(),
              [](const Stream& a, const Stream& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
    return std::move(streams_);
  }

 private:
  // A box in a tile: bytes from its first element, and by dimension.
  struct BoxPlace {
    std::int64_t offset = 0;
    Strides strides;
  };
  enum class Side { source, target };
  // A piece, and how its box lies in both tiles.
  struct LaidBox {
    const Piece* piece;
    std::uint32_t shape;
    std::int64_t from_offset;
    std::int64_t to_offset;
    std::int64_t bytes;
  };

  // The place of the device among this process's.
  std::optional<std::size_t> slot_of(Device device) const {
    const auto place = std::lower_bound(devices_.begin(), devices_.end(), device);
    if (place == devices_.end() || *place != device) return std::nullopt;
    return static_cast<std::size_t>(place - devices_.begin());
  }

  // Of the pieces so far. All streams go through arrays and their elements in one order, so that rounds drain sources
  // and fill targets from one end to the other.
  void add_stream(Device from, Device to) {
    if (pieces_.empty()) return;
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return std::tie(a.array, a.box.lo) < std::tie(b.array, b.box.lo); });
    streams_.streams.push_back({from, to, 0, {}});
    laid_.clear();
    for (const Piece& piece : pieces_) add(piece);
    pieces_.clear();
  }

  void add(const Piece& piece) {
    const LaidBox& laid = lay(piece);
    Stream& stream = streams_.streams.back();
    stream.bytes += laid.bytes;
    stream.pieces.push_back({laid.shape, static_cast<std::uint32_t>(piece.array), laid.from_offset, laid.to_offset});
  }

  // Packed arrays of one problem have equal tiles, so that a stream repeats few boxes array by array.
  const LaidBox& lay(const Piece& piece) {
    constexpr std::size_t most_remembered = 16;
    if (!strides_.empty()) laid_.clear();
    const auto same = std::find_if(laid_.begin(), laid_.end(), [&](const LaidBox& laid) {
      return laid.piece->problem == piece.problem && laid.piece->box == piece.box;
    });
    if (same != laid_.end()) return *same;
    const std::int64_t element = bytes_of(plan_.manifest().problems[piece.problem].element_type());
    const BoxPlace from = place_of(piece, is_relay_ ? Side::target : Side::source, piece.from, element);
    const BoxPlace to = place_of(piece, Side::target, piece.to, element);
    PieceShape shape{Shape(piece.box.lo.size()), from.strides, to.strides, element};
    for (std::size_t i = 0; i < shape.extent.size(); ++i) shape.extent[i] = piece.box.hi[i] - piece.box.lo[i];
    const std::int64_t bytes = shape.bytes();
    if (laid_.size() == most_remembered) laid_.erase(laid_.begin());
    return laid_.emplace_back(LaidBox{&piece, number_of(std::move(shape)), from.offset, to.offset, bytes});
  }

  BoxPlace place_of(const Piece& piece, Side side, Device device, std::int64_t element) {
    const Part& part = part_around(piece, side, device);
    BoxPlace place{part.offset * element, part.strides};
    for (std::int64_t& stride : place.strides) stride *= element;
    const Strides* given = given_strides(piece.array, side, device);
    if (given != nullptr) place = {0, *given};
    for (std::size_t i = 0; i < place.strides.size(); ++i) {
      place.offset += (piece.box.lo[i] - part.box.lo[i]) * place.strides[i];
    }
    return place;
  }

  const Strides* given_strides(std::size_t array, Side side, Device device) const {
    if (strides_.empty()) return nullptr;
    const std::vector<Strides>& list = side == Side::source ? strides_[array].sources : strides_[array].targets;
    const auto slot = slot_of(device);
    return list.empty() || !slot || list[*slot].empty() ? nullptr : &list[*slot];
  }

  // What the device holds that the piece lies in.
  const Part& part_around(const Piece& piece, Side side, Device device) {
    const auto [found, is_new] = parts_.try_emplace({piece.problem, side, device});
    if (is_new) {
      found->second = (side == Side::source ? plan_.source(piece.problem) : plan_.target(piece.problem)).parts(device);
    }
    const auto part = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const Part& one) { return contains(one.box, piece.box); });
    ensure(part != found->second.end(), "pieces lie in tiles");
    return *part;
  }

  std::uint32_t number_of(PieceShape shape) {
    const auto [found, is_new] = numbers_.try_emplace({shape.extent, shape.from, shape.to, shape.element_size},
                                                      static_cast<std::uint32_t>(streams_.shapes.size()));
    if (is_new) streams_.shapes.push_back(std::move(shape));
    return found->second;
  }

  const TransferPlan& plan_;
  const std::span<const Device> devices_;
  const std::span<const BufferStrides> strides_;
  const bool is_relay_;
  Streams streams_;
  std::vector<Piece> pieces_;  // of the next stream
  std::vector<LaidBox> laid_;  // the last ones of the stream
  std::map<std::tuple<std::size_t, Side, Device>, std::vector<Part>> parts_;
  std::map<std::tuple<Shape, Strides, Strides, std::int64_t>, std::uint32_t> numbers_;
};

}  // namespace

Streams make_streams(const TransferPlan& plan, std::span<const Device> devices, std::span<const BufferStrides> strides,
                     bool is_relay) {
  return StreamMaker(plan, devices, strides, is_relay).make();
}

}  // namespace retile::transfer
