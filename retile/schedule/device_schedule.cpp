#include "retile/schedule/device_schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/schedule/stage.h"

namespace retile {
namespace {

Region region_of(const TileLayout& tile, const Box& box, std::int64_t element_size) {
  Region region{tile.offset, Shape(box.lo.size()), strides_of(tile, element_size)};
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    region.shape[i] = box.hi[i] - box.lo[i];
    region.offset += (box.lo[i] - tile.box.lo[i]) * region.strides[i];
  }
  return region;
}

// Boxes of at most so many elements, cut evenly along the outermost dimensions that can be cut. From the box alone, so
// that both ends of a message cut alike.
void cut_into(const Box& box, std::int64_t elements, std::vector<Box>& boxes) {
  const auto rank = box.lo.size();
  std::size_t dimension = 0;
  while (dimension < rank && box.hi[dimension] - box.lo[dimension] < 2) ++dimension;
  if (volume(box) <= elements || dimension == rank) {
    boxes.push_back(box);
    return;
  }
  const std::int64_t length = box.hi[dimension] - box.lo[dimension];
  const std::int64_t rows = std::max<std::int64_t>(1, elements / (volume(box) / length));  // of a part
  const std::int64_t parts = divide_up(length, rows);
  Box part = box;
  for (std::int64_t i = 0; i < parts; ++i) {
    part.hi[dimension] = part.lo[dimension] + length / parts + (i < length % parts ? 1 : 0);
    cut_into(part, elements, boxes);
    part.lo[dimension] = part.hi[dimension];
  }
}

// The pieces between a device and each of its peers, as messages. Peers meet by the sum of their numbers: each device
// has one peer at a time, and is that one's, so that both ways are open at once.
class Rounds {
 public:
  Rounds(const Stage& stage, Device device, std::int64_t element_size, std::int64_t message_bytes)
      : stage_(stage), device_(device), element_size_(element_size), message_bytes_(message_bytes) {}

  void add(const Piece& piece) {
    std::vector<Box> boxes;
    cut_into(piece.box, std::max<std::int64_t>(1, message_bytes_ / element_size_), boxes);
    const std::int64_t devices = stage_.after().device_count();
    const std::int64_t meeting = (std::int64_t{piece.from} + piece.to) % devices;
    for (const Box& box : boxes) {
      if (piece.from == device_) {
        put(sends_[meeting], piece.to, region_of(stage_.tile_before(device_, box), box, element_size_), box);
      } else {
        put(receives_[meeting], piece.from, region_of(stage_.tile_after(device_, box), box, element_size_), box);
      }
    }
  }

  std::vector<MessageRound> take() {
    std::vector<MessageRound> rounds;
    for (std::int64_t meeting = 0; meeting < stage_.after().device_count(); ++meeting) {
      std::vector<Message>& sends = sends_[meeting];
      std::vector<Message>& receives = receives_[meeting];
      const std::size_t first = rounds.size();
      rounds.resize(first + std::max(sends.size(), receives.size()));
      for (std::size_t i = 0; i < sends.size(); ++i) rounds[first + i].send = std::move(sends[i]);
      for (std::size_t i = 0; i < receives.size(); ++i) rounds[first + i].receive = std::move(receives[i]);
    }
    return rounds;
  }

 private:
  // Both ends see the pieces between them in one order, so their messages are alike.
  void put(std::vector<Message>& messages, Device peer, Region region, const Box& box) const {
    const std::int64_t bytes = volume(box) * element_size_;
    if (messages.empty() || messages.back().bytes + bytes > message_bytes_) messages.push_back({peer, 0, {}});
    messages.back().bytes += bytes;
    messages.back().regions.push_back(std::move(region));
  }

  const Stage& stage_;
  Device device_;
  std::int64_t element_size_;
  std::int64_t message_bytes_;
  std::map<std::int64_t, std::vector<Message>> sends_;
  std::map<std::int64_t, std::vector<Message>> receives_;
};

DeviceStage stage_of(const Stage& stage, Device device, const DeviceScheduleOptions& options) {
  DeviceStage result;
  result.elements = stage.after().size(device);
  result.reduction = stage.reduction();
  if (result.reduction) return result;
  Rounds rounds(stage, device, options.element_size, options.message_bytes);
  stage.visit_received(device, [&](const Piece& piece) {
    if (piece.from != device) return rounds.add(piece);
    result.copies.push_back({region_of(stage.tile_before(device, piece.box), piece.box, options.element_size),
                             region_of(stage.tile_after(device, piece.box), piece.box, options.element_size)});
  });
  stage.visit_sent(device, [&](const Piece& piece) { rounds.add(piece); });
  result.rounds = rounds.take();
  return result;
}

// None where the device's array is packed, however many boxes it holds.
std::vector<Strides> given(const Strides& strides) {
  return strides.empty() ? std::vector<Strides>() : std::vector<Strides>{strides};
}

// Strides for all devices, of which only this device's matter.
std::vector<Strides> spread(const std::vector<Strides>& own, Device device, std::int64_t devices) {
  if (own.empty()) return {};
  std::vector<Strides> all(static_cast<std::size_t>(devices));
  all[static_cast<std::size_t>(device)] = own.front();
  return all;
}

}  // namespace

std::vector<DeviceStage> device_schedule(const Plan& plan, Device device, const DeviceScheduleOptions& options) {
  const Movement& movement = plan.movement;
  require_element_size(movement, options.element_size);
  const std::vector<Device> devices{device};
  const BufferStrides own =
      require_strides({strides_in_view(given(options.source), plan.view, movement.source, devices),
                       strides_in_view(given(options.target), plan.view, movement.target(), devices)},
                      movement.source, movement.target(), devices, options.element_size);
  const BufferStrides strides{spread(own.sources, device, movement.source.device_count()),
                              spread(own.targets, device, movement.source.device_count())};
  std::vector<Stage> stages = make_schedule(movement, options.element_size, strides);
  if (stages.empty()) stages.emplace_back(movement.source, strides, options.element_size);
  std::vector<DeviceStage> result;
  for (const Stage& stage : stages) result.push_back(stage_of(stage, device, options));
  return result;
}

}  // namespace retile
