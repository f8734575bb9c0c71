#include "retile/engines/reference/reference.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/plan/lists.h"

namespace retile {
namespace {

// The work of one step: tiles in, tiles out.
class StepRun {
 public:
  StepRun(const Mesh& mesh, const Step& step, const Tiles& before, std::int64_t element_size)
      : mesh_(mesh), step_(step), before_(before), element_size_(element_size), received_(before.size()) {
    for (std::size_t device = 0; device < before.size(); ++device) {
      after_.push_back(allocate_tile(step.after.box(static_cast<Device>(device)), element_size));
    }
  }

  void run() {
    if (const Groups* groups = groups_of(step_.operation)) {
      for (const std::vector<Device>& group : *groups) {
        for (const Device to : group) {
          for (const Device from : group) move_shared(from, to);
        }
      }
    } else if (const auto* permute = std::get_if<PermuteStep>(&step_.operation)) {
      for (const DevicePair& pair : *permute->pairs) move_shared(pair.source, pair.target);
    } else {
      for (Device device = 0; device < mesh_.device_count(); ++device) move_shared(device, device);
      const auto* exchange = std::get_if<ExchangeStep>(&step_.operation);
      if (exchange == nullptr) return;
      for (const Transfer& transfer : *exchange->transfers) move(transfer.from, transfer.to, transfer.box);
    }
  }

  Tiles take_tiles() { return std::move(after_); }
  const Tiles& tiles() const { return after_; }
  const std::vector<std::int64_t>& received() const { return received_; }

 private:
  void move(Device from, Device to, const Box& box) {
    const auto source = static_cast<std::size_t>(from);
    const auto target = static_cast<std::size_t>(to);
    copy_box(before_[source], after_[target], box, element_size_);
    if (from != to) received_[target] += volume(box) * element_size_;
  }

  // All that the one held and the other needs.
  void move_shared(Device from, Device to) {
    const auto shared =
        intersect(before_[static_cast<std::size_t>(from)].box, after_[static_cast<std::size_t>(to)].box);
    if (shared) move(from, to, *shared);
  }

  const Mesh& mesh_;
  const Step& step_;
  const Tiles& before_;
  std::int64_t element_size_;
  Tiles after_;
  std::vector<std::int64_t> received_;  // bytes, by device
};

std::int64_t most_bytes(const Tiles& before, const Tiles& after) {
  std::size_t most = 0;
  for (std::size_t device = 0; device < before.size(); ++device) {
    most = std::max(most, before[device].bytes.size() + (after.empty() ? 0 : after[device].bytes.size()));
  }
  return static_cast<std::int64_t>(most);
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

  EngineStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    require_buffers(sources, targets, devices_);
    Tiles tiles;
    for (std::size_t device = 0; device < sources.size(); ++device) {
      const Box box = movement_.source.box(devices_[device]);
      tiles.push_back(allocate_tile(box, element_size_));
      copy_box(sources[device], {box, strides_.sources.empty() ? Strides() : strides_.sources[device]},
               tiles.back().bytes.data(), box, box, element_size_);
    }
    EngineStatistics statistics = move(tiles);
    const std::int64_t owned = movement_.source.local_size() + movement_.target().local_size();
    statistics.peak_predicted = predict_peak_bytes(movement_, element_size_, TileUse::kept, reference_memory);
    statistics.peak_measured += owned * element_size_;
    for (std::size_t device = 0; device < targets.size(); ++device) {
      const Box& box = tiles[device].box;
      copy_box(tiles[device].bytes.data(), box, targets[device],
               {box, strides_.targets.empty() ? Strides() : strides_.targets[device]}, box, element_size_);
    }
    return statistics;
  }

  EngineStatistics execute(Tiles& tiles) override {
    require_tiles(tiles, movement_.source, devices_, element_size_, strides_);
    return move(tiles);
  }

 private:
  EngineStatistics move(Tiles& tiles) const {
    const auto start = std::chrono::steady_clock::now();
    EngineStatistics statistics;
    statistics.peak_predicted = predict_peak_bytes(movement_, element_size_, TileUse::donated, reference_memory);
    statistics.peak_measured = most_bytes(tiles, {});
    std::vector<std::int64_t> received(tiles.size());
    for (const Step& step : movement_.steps) {
      StepRun run(movement_.mesh, step, tiles, element_size_);
      run.run();
      statistics.peak_measured = std::max(statistics.peak_measured, most_bytes(tiles, run.tiles()));
      for (std::size_t device = 0; device < received.size(); ++device) received[device] += run.received()[device];
      tiles = run.take_tiles();
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
    return std::make_unique<ReferenceRun>(movement, element_size, strides);
  }

  EngineMemory memory() const override { return reference_memory; }
};

}  // namespace

std::unique_ptr<Engine> make_reference_engine() { return std::make_unique<ReferenceEngine>(); }

}  // namespace retile
