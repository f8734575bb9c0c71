#include "retile/engines/reference/reference.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/copies/combine.h"
#include "retile/plan/lists.h"
#include "retile/schedule/stage.h"

namespace retile {
namespace {

// The boxes of one device, each packed by itself.
using HeldBoxes = std::vector<Tile>;

std::vector<HeldBoxes> allocate_boxes(const Placement& placement, std::int64_t element_size) {
  std::vector<HeldBoxes> devices(static_cast<std::size_t>(placement.device_count()));
  for (std::size_t device = 0; device < devices.size(); ++device) {
    for (const Part& part : placement.parts(static_cast<Device>(device))) {
      devices[device].push_back(allocate_tile(part.box, element_size));
    }
  }
  return devices;
}

// The work of one step: boxes in, boxes out.
class StepRun {
 public:
  StepRun(const Step& step, const std::vector<HeldBoxes>& before, std::int64_t element_size)
      : step_(step),
        before_(before),
        element_size_(element_size),
        after_(allocate_boxes(step.after, element_size)),
        received_(before.size()) {}

  void run() {
    if (const auto* reduce = std::get_if<ReduceStep>(&step_.operation)) return combine(*reduce);
    if (const Groups* groups = groups_of(step_.operation)) {
      for (const std::vector<Device>& group : *groups) {
        for (const Device to : group) {
          for (const Device from : group) move_shared(from, to);
        }
      }
    } else if (const auto* permute = std::get_if<PermuteStep>(&step_.operation)) {
      for (const DevicePair& pair : *permute->pairs) move_shared(pair.source, pair.target);
    } else {
      for (std::size_t device = 0; device < before_.size(); ++device) {
        move_shared(static_cast<Device>(device), static_cast<Device>(device));
      }
      const auto* exchange = std::get_if<ExchangeStep>(&step_.operation);
      if (exchange == nullptr) return;
      for (const Piece& transfer : *exchange->pieces) move(transfer.from, transfer.to, transfer.box);
    }
  }

  std::vector<HeldBoxes> take_boxes() { return std::move(after_); }
  const std::vector<HeldBoxes>& boxes() const { return after_; }
  const std::vector<std::int64_t>& received() const { return received_; }

 private:
  // What the one held and the other needs of the box.
  void move(Device from, Device to, const Box& box) {
    for (const Tile& source : before_[static_cast<std::size_t>(from)]) {
      for (Tile& target : after_[static_cast<std::size_t>(to)]) {
        const auto held = intersect(source.box, box);
        const auto shared = held ? intersect(target.box, *held) : std::nullopt;
        if (!shared) continue;
        copy_box(source, target, *shared, element_size_);
        if (from != to) received_[static_cast<std::size_t>(to)] += volume(*shared) * element_size_;
      }
    }
  }

  // Parts along the first dimensions, element by element.
  void combine(const ReduceStep& reduce) {
    for (std::size_t device = 0; device < before_.size(); ++device) {
      if (after_[device].empty()) continue;
      Tile& result = after_[device].front();
      const std::int64_t elements = volume(result.box);
      const std::int64_t parts = volume(before_[device].front().box) / elements;
      for (std::int64_t i = 0; i < elements; ++i) {
        combine_rows(reduce.reduction, reduce.element, parts, elements, i, 1, before_[device].front().bytes.data(),
                     result.bytes.data());
      }
    }
  }

  void move_shared(Device from, Device to) {
    move(from, to, box_at(Shape(step_.after.global_shape().size()), step_.after.global_shape()));
  }

  const Step& step_;
  const std::vector<HeldBoxes>& before_;
  std::int64_t element_size_;
  std::vector<HeldBoxes> after_;
  std::vector<std::int64_t> received_;  // bytes, by device
};

std::int64_t bytes_of(const HeldBoxes& boxes) {
  std::size_t bytes = 0;
  for (const Tile& box : boxes) bytes += box.bytes.size();
  return static_cast<std::int64_t>(bytes);
}

// A step's input and output tiles are alive at once, and tiles that are kept are copied.
constexpr EngineMemory reference_memory{EngineMemory::Between::every_step, 0};

class ReferenceRun final : public PreparedRun {
 public:
  ReferenceRun(const Movement& movement, std::int64_t element_size, const BufferStrides& strides)
      : movement_(with_lists(movement)),
        devices_(all_devices(movement.mesh.device_count())),
        element_size_(element_size),
        strides_(require_strides(strides, movement_.source, movement_.target(), devices_, element_size)) {}

  RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    require_buffers(sources, targets, devices_);
    std::vector<HeldBoxes> boxes = take_in(sources);
    RunStatistics statistics = move(boxes, TileUse::kept);
    give_out(boxes, targets);
    return statistics;
  }

  RunStatistics execute(Tiles& tiles) override {
    require_tiles(tiles, movement_.source, devices_, element_size_, strides_);
    std::vector<const std::byte*> sources;
    for (const Tile& tile : tiles) sources.push_back(tile.bytes.data());
    std::vector<HeldBoxes> boxes = take_in(sources);
    tiles.clear();
    RunStatistics statistics = move(boxes, TileUse::donated);
    std::vector<std::byte*> targets;
    for (const Device device : devices_) {
      const std::int64_t bytes = checked_bytes(movement_.target().size(device), element_size_);
      tiles.push_back({box_of_tile(movement_.target(), device), Buffer(static_cast<std::size_t>(bytes))});
      targets.push_back(tiles.back().bytes.data());
    }
    give_out(boxes, targets);
    return statistics;
  }

 private:
  TileLayout layout(const Placement& placement, const std::vector<Strides>& strides, Device device,
                    const Part& part) const {
    if (strides.empty()) return layout_of(part, element_size_);
    const Strides& given = strides[static_cast<std::size_t>(device)];
    if (placement.has_single_boxes()) return {placement.box(device), given};
    return layout_of(laid_out(part, placement.memory_dimensions(), given, element_size_), element_size_);
  }

  std::vector<HeldBoxes> take_in(std::span<const std::byte* const> sources) const {
    std::vector<HeldBoxes> boxes = allocate_boxes(movement_.source, element_size_);
    for (const Device device : devices_) {
      const std::vector<Part> parts = movement_.source.parts(device);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        copy_box(sources[static_cast<std::size_t>(device)],
                 layout(movement_.source, strides_.sources, device, parts[i]),
                 boxes[static_cast<std::size_t>(device)][i].bytes.data(), parts[i].box, parts[i].box, element_size_);
      }
    }
    return boxes;
  }

  void give_out(const std::vector<HeldBoxes>& boxes, std::span<std::byte* const> targets) const {
    for (const Device device : devices_) {
      const std::vector<Part> parts = movement_.target().parts(device);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        copy_box(boxes[static_cast<std::size_t>(device)][i].bytes.data(), parts[i].box,
                 targets[static_cast<std::size_t>(device)],
                 layout(movement_.target(), strides_.targets, device, parts[i]), parts[i].box, element_size_);
      }
    }
  }

  // What the caller keeps beside the boxes.
  std::vector<std::int64_t> kept_bytes(TileUse use) const {
    std::vector<std::int64_t> kept;
    for (const Device device : devices_) {
      const std::int64_t ends = movement_.source.size(device) + movement_.target().size(device);
      kept.push_back(use == TileUse::donated ? 0 : ends * element_size_);
    }
    return kept;
  }

  RunStatistics move(std::vector<HeldBoxes>& boxes, TileUse use) const {
    const auto start = std::chrono::steady_clock::now();
    RunStatistics statistics;
    statistics.peak_predicted = predict_peak_bytes(movement_, element_size_, use, reference_memory);
    const std::vector<std::int64_t> kept = kept_bytes(use);
    // What an array that goes on beyond its ends has twice is in memory once; the boxes of a source with a halo are in
    // the memory of the padded array.
    const auto bytes_in = [&](const HeldBoxes& held, const Placement& placement, std::size_t device) {
      const std::int64_t memory = placement.size(static_cast<Device>(device)) * element_size_;
      return &placement == &movement_.source ? memory : std::min(bytes_of(held), memory);
    };
    const auto measure = [&](const Placement& before, const std::vector<HeldBoxes>& after, const Placement& placement) {
      for (std::size_t device = 0; device < boxes.size(); ++device) {
        const std::int64_t moved =
            bytes_in(boxes[device], before, device) + (after.empty() ? 0 : bytes_in(after[device], placement, device));
        statistics.peak_measured = std::max(statistics.peak_measured, kept[device] + moved);
      }
    };
    measure(movement_.source, {}, movement_.source);
    std::vector<std::int64_t> received(boxes.size());
    for (std::size_t i = 0; i < movement_.steps.size(); ++i) {
      const Step& step = movement_.steps[i];
      StepRun run(step, boxes, element_size_);
      run.run();
      measure(movement_.before(i), run.boxes(), step.after);
      for (std::size_t device = 0; device < received.size(); ++device) received[device] += run.received()[device];
      boxes = run.take_boxes();
    }
    statistics.received_max = *std::max_element(received.begin(), received.end());
    statistics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return statistics;
  }

  const Movement movement_;
  const std::vector<Device> devices_;
  const std::int64_t element_size_;
  const BufferStrides strides_;
};

class ReferenceEngine final : public Engine {
 public:
  const char* name() const override { return "reference"; }

  std::vector<Device> devices(std::int64_t device_count) const override { return all_devices(device_count); }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    require_element_size(movement, element_size);
    return std::make_unique<ReferenceRun>(movement, element_size, strides);
  }

  EngineMemory memory() const override { return reference_memory; }
};

}  // namespace

std::unique_ptr<Engine> make_reference_engine() { return std::make_unique<ReferenceEngine>(); }

}  // namespace retile
