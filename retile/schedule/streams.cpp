#include "retile/schedule/streams.h"

#include <numeric>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

const Strides& strides_of_device(const std::vector<Strides>& strides, const Strides& packed, Device device) {
  return strides.empty() ? packed : at(strides, device);
}

bool has_extent(const Box& box, const Shape& extent) {
  for (std::size_t i = 0; i < extent.size(); ++i) {
    if (box.hi[i] - box.lo[i] != extent[i]) return false;
  }
  return true;
}

// Where the box begins in the device's tile. `corner` is room for that of the tile.
std::int64_t offset_in(const Placement& tiles, Device device, const Box& box, const Strides& strides, Shape& corner) {
  tiles.offset(device, corner);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < corner.size(); ++i) {
    const bool lies_inside = corner[i] <= box.lo[i] && box.hi[i] <= corner[i] + tiles.local_shape()[i];
    ensure(lies_inside, "a copy's box lies in both tiles");
    offset += (box.lo[i] - corner[i]) * strides[i];
  }
  return offset;
}

// The offset of a box in a tile of any kind.
std::int64_t offset_in(const TileLayout& tile, const Box& box, const Strides& strides) {
  ensure(contains(tile.box, box), "a copy's box lies in both tiles");
  std::int64_t offset = tile.offset;
  for (std::size_t i = 0; i < strides.size(); ++i) offset += (box.lo[i] - tile.box.lo[i]) * strides[i];
  return offset;
}

Strides packed_alike(const Placement& tiles, std::int64_t element_size) {
  return tiles.is_even() ? strides_of(tiles.box(0), element_size) : Strides();
}

Shape position_strides_of(const Stage& stage) {
  const Placement& after = stage.after();
  if (after.rank() == 0) return {};
  const std::vector<Strides>& targets = stage.strides().targets;
  const bool is_packed = targets.empty() || !after.has_single_boxes();
  const DimensionOrder order = order_of(
      {box_at(Shape(after.global_shape().size()), after.global_shape()), is_packed ? Strides() : targets.front()});
  return packed_strides(box_at(Shape(order.size()), after.global_shape()), 1, order);
}

// Lists the pieces of some devices, device by device.
class StreamLister {
 public:
  StreamLister(std::shared_ptr<const Stage> stage, std::span<const Device> devices, const PieceFilter& filter)
      : devices_(devices), filter_(filter), placer_(*stage) {
    streams_.device_count = stage->after().device_count();
    streams_.stage = std::move(stage);
  }

  Streams list(std::int64_t most_bytes) {
    for (std::size_t i = 0; i < devices_.size() && streams_.is_listed; ++i) {
      streams_.stage->visit_received(devices_[i], [&](const Piece& piece) {
        if (!filter_ || filter_(piece)) pieces_.push_back(piece);
      });
      add([](const Piece& piece) { return piece.from; });
      streams_.stage->visit_sent(devices_[i], [&](const Piece& piece) {
        if (!is_ours(piece.to) && (!filter_ || filter_(piece))) pieces_.push_back(piece);
      });
      add([](const Piece& piece) { return piece.to; });
      streams_.is_listed = bytes() <= most_bytes;
    }
    streams_.shapes = placer_.shapes().take();
    streams_.position_strides = placer_.position_strides();
    if (!streams_.is_listed) streams_.drop_lists();
    return std::move(streams_);
  }

 private:
  bool is_ours(Device device) const { return std::binary_search(devices_.begin(), devices_.end(), device); }

  // Those between two devices lie together, in their order.
  template <typename Peer>
  void add(Peer peer) {
    const auto by_peer = [&](const Piece& a, const Piece& b) { return peer(a) < peer(b); };
    if (!std::is_sorted(pieces_.begin(), pieces_.end(), by_peer)) {
      std::stable_sort(pieces_.begin(), pieces_.end(), by_peer);
    }
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      streams_.pieces.push_back(placer_.place(pieces_[i]));
      bytes_ += placer_.shapes()[streams_.pieces.back().shape].bytes();
      if (i + 1 < pieces_.size() && peer(pieces_[i + 1]) == peer(pieces_[i])) continue;
      streams_.end_stream(pieces_[i].from, pieces_[i].to, std::exchange(bytes_, 0));
    }
    pieces_.clear();
  }

  std::int64_t bytes() {
    return static_cast<std::int64_t>(streams_.pieces.size() * sizeof(StreamPiece) +
                                     streams_.streams.size() * sizeof(Stream)) +
           placer_.shapes().bytes();
  }

  const std::span<const Device> devices_;
  const PieceFilter& filter_;
  Streams streams_;
  PiecePlacer placer_;
  std::vector<Piece> pieces_;  // of a device
  std::int64_t bytes_ = 0;     // of the stream
};

}  // namespace

std::int64_t PieceShape::bytes() const { return product(extent) * element_size; }

BoxCopy PieceShape::copy() const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, from), TileLayout(box, to), box, element_size};
}

BoxPacking PieceShape::packing(const DimensionOrder& order) const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, from), box, element_size, order};
}

BoxPacking PieceShape::unpacking(const DimensionOrder& order) const {
  const Box box = box_at(Shape(extent.size()), extent);
  return {TileLayout(box, to), box, element_size, order};
}

std::uint32_t PieceShapes::number_of(const PieceShape& shape) {
  const auto [found, is_new] = numbers_.try_emplace({shape.extent, shape.from, shape.to, shape.element_size},
                                                    static_cast<std::uint32_t>(shapes_.size()));
  if (is_new) shapes_.push_back(shape);
  return found->second;
}

void Streams::end_stream(Device from, Device to, std::int64_t bytes) {
  const std::size_t first = streams.empty() ? 0 : streams.back().first + streams.back().count;
  if (first < pieces.size()) streams.push_back({from, to, bytes, first, pieces.size() - first});
}

void Streams::drop_lists() {
  is_listed = false;
  shapes = std::vector<PieceShape>();
  pieces = std::vector<StreamPiece>();
  streams = std::vector<Stream>();
}

PiecePlacer::PiecePlacer(const Stage& stage)
    : stage_(&stage),
      packed_from_(packed_alike(stage.before(), stage.element_size())),
      packed_to_(packed_alike(stage.after(), stage.element_size())),
      position_strides_(position_strides_of(stage)),
      corner_(static_cast<std::size_t>(stage.after().rank())),
      shape_{Shape(corner_.size()), {}, {}, stage.element_size()} {}

StreamPiece PiecePlacer::place(const Piece& piece) {
  if (!stage_->before().is_even() || !stage_->after().is_even()) return place_unevenly(piece);
  const auto& [from, to, box] = piece;
  const Strides& from_strides = strides_of_device(stage_->strides().sources, packed_from_, from);
  const Strides& to_strides = strides_of_device(stage_->strides().targets, packed_to_, to);
  return {find_shape(box, from_strides, to_strides), 0, offset_in(stage_->before(), from, box, from_strides, corner_),
          offset_in(stage_->after(), to, box, to_strides, corner_), position_of(box)};
}

StreamPiece PiecePlacer::place_unevenly(const Piece& piece) {
  const TileLayout source = stage_->tile_before(piece.from, piece.box);
  const TileLayout target = stage_->tile_after(piece.to, piece.box);
  const Strides from = strides_of(source, stage_->element_size());
  const Strides to = strides_of(target, stage_->element_size());
  return {find_shape(piece.box, from, to), 0, offset_in(source, piece.box, from), offset_in(target, piece.box, to),
          position_of(piece.box)};
}

std::int64_t PiecePlacer::position_of(const Box& box) const {
  return std::inner_product(box.lo.begin(), box.lo.end(), position_strides_.begin(), std::int64_t{0});
}

std::uint32_t PiecePlacer::find_shape(const Box& box, const Strides& from, const Strides& to) {
  const bool is_last = !shapes_.is_empty() && has_extent(box, shape_.extent) && shape_.from == from && shape_.to == to;
  if (is_last) return last_;
  for (std::size_t i = 0; i < shape_.extent.size(); ++i) shape_.extent[i] = box.hi[i] - box.lo[i];
  shape_.from = from;
  shape_.to = to;
  last_ = shapes_.number_of(shape_);
  return last_;
}

Streams make_streams(std::shared_ptr<const Stage> stage, std::span<const Device> devices, std::int64_t listed_bytes,
                     const PieceFilter& filter) {
  return StreamLister(std::move(stage), devices, filter).list(listed_bytes);
}

}  // namespace retile
