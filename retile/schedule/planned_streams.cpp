#include "retile/schedule/planned_streams.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

class StreamMaker {
 public:
  StreamMaker(const StreamPlan& plan, std::span<const Device> devices, const ArrayStrides& strides, StreamPhase phase)
      : plan_(plan), devices_(devices), strides_(strides), phase_(phase) {
    streams_.device_count = plan.device_count();
    streams_.array_count = plan.array_count();
    streams_.rounds = std::max<std::int64_t>(1, plan.rounds(phase));
    streams_.rounds_in_flight = rounds_in_flight;
    streams_.are_shapes_common =
        strides.are_of_all_devices || std::all_of(strides.strides.begin(), strides.strides.end(),
                                                  [](const BufferStrides& one) { return one.are_packed(); });
  }

  Streams make() {
    const bool keeps = phase_ == StreamPhase::from_sources;
    for (const Device device : keeps ? devices_ : std::span<const Device>()) {
      plan_.visit_kept(device, [&](const StreamPlan::Piece& piece) { pieces_.push_back(piece); });
      add_stream(device, device);
    }
    for (const StreamPlan::Stream& stream : plan_.streams()) {
      if (stream.phase != phase_ || (!slot_of(stream.from) && !slot_of(stream.to))) continue;
      plan_.visit_pieces(stream, [&](const StreamPlan::Piece& piece) { pieces_.push_back(piece); });
      add_stream(stream.from, stream.to);
    }
    streams_.shapes = shapes_.take();
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
    const StreamPlan::Piece* piece;
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

  // Ends a stream of the pieces so far. All streams go through arrays and elements in one order, so that rounds drain
  // sources and fill targets from one end to the other.
  void add_stream(Device from, Device to) {
    if (pieces_.empty()) return;
    std::sort(pieces_.begin(), pieces_.end(), [](const StreamPlan::Piece& a, const StreamPlan::Piece& b) {
      return std::tie(a.array, a.box.lo) < std::tie(b.array, b.box.lo);
    });
    laid_.clear();
    std::int64_t bytes = 0;
    for (const StreamPlan::Piece& piece : pieces_) bytes += add(piece);
    streams_.end_stream(from, to, bytes);
    pieces_.clear();
  }

  // Its bytes.
  std::int64_t add(const StreamPlan::Piece& piece) {
    const LaidBox& laid = lay(piece);
    streams_.pieces.push_back(
        {laid.shape, static_cast<std::uint32_t>(piece.array), laid.from_offset, laid.to_offset, 0});
    return laid.bytes;
  }

  // Packed arrays of one class have equal tiles, so that a stream repeats few boxes array by array.
  const LaidBox& lay(const StreamPlan::Piece& piece) {
    constexpr std::size_t most_remembered = 16;
    if (!strides_.strides.empty()) laid_.clear();
    const auto same = std::find_if(laid_.begin(), laid_.end(), [&](const LaidBox& laid) {
      return laid.piece->array_class == piece.array_class && laid.piece->box == piece.box;
    });
    if (same != laid_.end()) return *same;
    const std::int64_t element = plan_.classes()[piece.array_class].element_size;
    const Side side = phase_ == StreamPhase::passed_on ? Side::target : Side::source;
    const BoxPlace from = place_of(piece, side, piece.from, element);
    const BoxPlace to = place_of(piece, Side::target, piece.to, element);
    const PieceShape shape{extent_of(piece.box), from.strides, to.strides, element};
    if (laid_.size() == most_remembered) laid_.erase(laid_.begin());
    return laid_.emplace_back(LaidBox{&piece, shapes_.number_of(shape), from.offset, to.offset, shape.bytes()});
  }

  BoxPlace place_of(const StreamPlan::Piece& piece, Side side, Device device, std::int64_t element) {
    const StreamPlan::ArrayClass& kind = plan_.classes()[piece.array_class];
    const Placement& placement = side == Side::source ? kind.source : kind.target;
    const Strides* given = given_strides(piece.array, side, device);
    Part part = part_around(piece, side, device);
    const bool is_laid_out = given != nullptr && !placement.has_single_boxes();
    if (is_laid_out) part = laid_out(std::move(part), placement.memory_dimensions(), *given, element);
    BoxPlace place{part.offset * element, part.strides};
    for (std::int64_t& stride : place.strides) stride *= element;
    if (given != nullptr && !is_laid_out) place = {0, *given};
    for (std::size_t i = 0; i < place.strides.size(); ++i) {
      place.offset += (piece.box.lo[i] - part.box.lo[i]) * place.strides[i];
    }
    return place;
  }

  const Strides* given_strides(std::size_t array, Side side, Device device) const {
    if (strides_.strides.empty()) return nullptr;
    const BufferStrides& given = strides_.strides[array];
    const std::vector<Strides>& list = side == Side::source ? given.sources : given.targets;
    const std::optional<std::size_t> place =
        strides_.are_of_all_devices ? static_cast<std::size_t>(device) : slot_of(device);
    return list.empty() || !place || list[*place].empty() ? nullptr : &list[*place];
  }

  // What the device holds that the piece lies in.
  const Part& part_around(const StreamPlan::Piece& piece, Side side, Device device) {
    const auto [found, is_new] = parts_.try_emplace({piece.array_class, side, device});
    if (is_new) {
      const StreamPlan::ArrayClass& kind = plan_.classes()[piece.array_class];
      found->second = (side == Side::source ? kind.source : kind.target).parts(device);
    }
    const auto part = std::find_if(found->second.begin(), found->second.end(),
                                   [&](const Part& one) { return contains(one.box, piece.box); });
    ensure(part != found->second.end(), "pieces lie in tiles");
    return *part;
  }

  const StreamPlan& plan_;
  const std::span<const Device> devices_;
  const ArrayStrides strides_;
  const StreamPhase phase_;
  Streams streams_;
  std::vector<StreamPlan::Piece> pieces_;  // of the next stream
  std::map<std::tuple<std::size_t, Side, Device>, std::vector<Part>> parts_;
  PieceShapes shapes_;
  std::vector<LaidBox> laid_;  // the last ones of the stream
};

}  // namespace

Streams make_streams(const StreamPlan& plan, std::span<const Device> devices, const ArrayStrides& strides,
                     StreamPhase phase) {
  return StreamMaker(plan, devices, strides, phase).make();
}

}  // namespace retile
