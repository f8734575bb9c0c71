#include "retile/engines/reference/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/groups.h"

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
    switch (step_.op) {
      case StepOp::dynslice:
        for (Device device = 0; device < mesh_.device_count(); ++device) move_shared(device, device);
        break;
      case StepOp::alltoall:
      case StepOp::allgather:
        for (const std::vector<Device>& group : step_.groups.list(mesh_)) {
          for (const Device to : group) {
            for (const Device from : group) move_shared(from, to);
          }
        }
        break;
      case StepOp::allpermute:
        for (const DevicePair& pair : step_.pairs) move_shared(pair.source, pair.target);
        break;
      case StepOp::exchange:
        for (Device device = 0; device < mesh_.device_count(); ++device) move_shared(device, device);
        for (const Transfer& transfer : step_.transfers) move(transfer.from, transfer.to, transfer.box);
        break;
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

// Other tiles than the movement starts from would be read past their ends.
void require_start(const Tiles& tiles, const Placement& start, std::int64_t element_size) {
  if (static_cast<std::int64_t>(tiles.size()) != start.device_count()) {
    throw RuntimeError(fmt::format("the run starts with {} tiles for {} devices", tiles.size(), start.device_count()));
  }
  const std::int64_t bytes = checked_bytes(start.local_size(), element_size);
  for (std::size_t device = 0; device < tiles.size(); ++device) {
    const Box box = start.box(static_cast<Device>(device));
    if (tiles[device].box == box && static_cast<std::int64_t>(tiles[device].bytes.size()) == bytes) continue;
    throw RuntimeError(fmt::format("device {} starts with {} in {} bytes instead of {} in {}", device,
                                   to_string(tiles[device].box), tiles[device].bytes.size(), to_string(box), bytes));
  }
}

std::int64_t most_bytes(const Tiles& before, const Tiles& after) {
  std::size_t most = 0;
  for (std::size_t device = 0; device < before.size(); ++device) {
    most = std::max(most, before[device].bytes.size() + (after.empty() ? 0 : after[device].bytes.size()));
  }
  return static_cast<std::int64_t>(most);
}

class ReferenceRun final : public PreparedRun {
 public:
  ReferenceRun(const Movement& movement, std::int64_t element_size)
      : movement_(with_lists(movement)), element_size_(element_size) {}

  EngineStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    Tiles tiles;
    for (std::size_t device = 0; device < sources.size(); ++device) {
      tiles.push_back(allocate_tile(movement_.source.box(static_cast<Device>(device)), element_size_));
      std::copy_n(sources[device], tiles.back().bytes.size(), tiles.back().bytes.data());
    }
    const EngineStatistics statistics = execute(tiles);
    for (std::size_t device = 0; device < targets.size(); ++device) {
      std::copy(tiles[device].bytes.begin(), tiles[device].bytes.end(), targets[device]);
    }
    return statistics;
  }

  EngineStatistics execute(Tiles& tiles) override {
    require_start(tiles, movement_.source, element_size_);
    const auto start = std::chrono::steady_clock::now();
    EngineStatistics statistics;
    statistics.peak_predicted = predict_peak_bytes(movement_, element_size_);
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

 private:
  const Movement movement_;
  const std::int64_t element_size_;
};

class ReferenceEngine final : public Engine {
 public:
  const char* name() const override { return "reference"; }

  std::vector<Device> devices(std::int64_t device_count) const override {
    std::vector<Device> all(static_cast<std::size_t>(device_count));
    std::iota(all.begin(), all.end(), Device{0});
    return all;
  }

  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size) override {
    return std::make_unique<ReferenceRun>(movement, element_size);
  }
};

}  // namespace

std::unique_ptr<Engine> make_reference_engine() { return std::make_unique<ReferenceEngine>(); }

std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size) {
  std::int64_t peak = movement.source.local_size();
  for (const Step& step : movement.steps) {
    const auto both = checked_add(product(step.local_in), product(step.local_out()));
    peak = std::max(peak, both.value_or(INT64_MAX));
  }
  return checked_bytes(peak, element_size);
}

}  // namespace retile
