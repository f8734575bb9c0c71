#include "retile/checking/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/checking/made_array.h"
#include "retile/checking/made_sum.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Per device, for boxes, copies and the allocations of tiles.
constexpr std::int64_t bookkeeping_bytes = 1024;

std::optional<MadeSum> find_sum(const Plan& plan, std::uint64_t seed) {
  for (const Step& step : plan.steps()) {
    const auto* reduce = std::get_if<ReduceStep>(&step.operation);
    if (reduce != nullptr) return MadeSum(*reduce, plan.movement.source.global_shape(), seed);
  }
  return std::nullopt;
}

// The shape of the array that tiles are parts of, by the plan's layouts or by its movement.
Shape shape_of(const Plan& plan, bool is_of_layouts) {
  if (!is_of_layouts) return plan.movement.source.global_shape();
  return plan.source.placement(plan.device_count()).global_shape();
}

// The tiles of this process's devices in one run after the other.
class TileRun {
 public:
  TileRun(const Plan& plan, Engine& engine, const RunOptions& options)
      : engine_(engine),
        source_(plan.movement.source),
        target_(plan.movement.target()),
        sum_(find_sum(plan, options.seed)),
        are_parts_(!sum_ && (source_.is_listed() || target_.is_listed())),
        array_{shape_of(plan, are_parts_), options.element_size, options.seed},
        use_(options.tiles),
        devices_(engine.devices(plan.device_count())),
        prepared_(engine.prepare(plan.movement, options.element_size)) {
    if (are_parts_) {
      source_parts_ = plan.source.inside(plan.device_count());
      target_parts_ = plan.target.placement(plan.device_count());
    }
    if (use_ == TileUse::kept) sources_ = made_tiles();
  }

  RunStatistics execute() { return use_ == TileUse::kept ? execute_kept() : execute_donated(); }

  // The first wrong element of the last execution on this process's devices.
  std::optional<std::string> difference() const {
    std::vector<std::optional<std::string>> differences(devices_.size());
    engine_.for_each(devices_.size(), [&](std::size_t i) { differences[i] = difference_of(i); });
    const auto first =
        std::find_if(differences.begin(), differences.end(), [](const auto& one) { return one.has_value(); });
    return first == differences.end() ? std::nullopt : *first;
  }

 private:
  Tiles made_tiles() const {
    Tiles tiles;
    for (const Device device : devices_) {
      tiles.push_back({box_of_tile(source_, device), engine_.allocate(bytes_of(source_, device))});
    }
    engine_.for_each(tiles.size(), [&](std::size_t i) {
      if (engine_.has_host_memory()) return fill(tiles[i], devices_[i]);
      Tile host{tiles[i].box, Buffer(tiles[i].bytes.size())};
      fill(host, devices_[i]);
      engine_.store({host.bytes.begin(), host.bytes.end()}, tiles[i].bytes.data());
    });
    return tiles;
  }

  void fill(Tile& tile, Device device) const {
    if (sum_) {
      sum_->make_parts(source_.parts(device), tile.bytes.data());
    } else if (are_parts_) {
      make_parts(array_, source_parts_->parts(device), tile.bytes.data());
    } else {
      fill_tile(array_, tile);
    }
  }

  std::optional<std::string> difference_of(std::size_t i) const {
    if (engine_.has_host_memory()) return difference_of(targets_[i], devices_[i]);
    Tile host{targets_[i].box, Buffer(targets_[i].bytes.size())};
    engine_.load(targets_[i].bytes.data(), {host.bytes.begin(), host.bytes.end()});
    return difference_of(host, devices_[i]);
  }

  std::optional<std::string> difference_of(const Tile& tile, Device device) const {
    if (sum_) return sum_->find_difference(target_.parts(device), device, tile.bytes.data());
    if (!are_parts_) return find_difference(array_, tile, device, target_.box(device));
    return find_difference(array_, tile.bytes.data(), device, target_parts_->parts(device));
  }

  std::size_t bytes_of(const Placement& placement, Device device) const {
    return static_cast<std::size_t>(checked_bytes(placement.size(device), array_.element_size));
  }

  RunStatistics execute_kept() {
    targets_.clear();
    for (const Device device : devices_) {
      const std::size_t bytes = bytes_of(target_, device);
      targets_.push_back(
          {box_of_tile(target_, device), engine_.has_host_memory() ? Buffer(bytes) : engine_.allocate(bytes)});
    }
    engine_.for_each(targets_.size(), [&](std::size_t i) {
      engine_.clear({targets_[i].bytes.begin(), targets_[i].bytes.end()});
    });
    std::vector<const std::byte*> from;
    std::vector<std::byte*> to;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      from.push_back(sources_[i].bytes.data());
      to.push_back(targets_[i].bytes.data());
    }
    return prepared_->execute(from, to);
  }

  RunStatistics execute_donated() {
    targets_.clear();
    Tiles tiles = made_tiles();
    RunStatistics statistics = prepared_->execute(tiles);
    targets_ = std::move(tiles);
    return statistics;
  }

  Engine& engine_;
  const Placement source_;
  const Placement target_;
  const std::optional<MadeSum> sum_;  // where the source is one
  // Whether tiles are filled and compared part by part, as parts of the array by the plan's layouts: what the movement
  // sees as an array may be larger.
  const bool are_parts_;
  const MadeArray array_;
  std::optional<Placement> source_parts_;
  std::optional<Placement> target_parts_;
  const TileUse use_;
  const std::vector<Device> devices_;
  const std::unique_ptr<PreparedRun> prepared_;
  Tiles sources_;  // where they are kept
  Tiles targets_;
};

}  // namespace

void require_memory(const Plan& plan, const Engine& engine, const RunOptions& options) {
  const std::int64_t devices = engine.devices_on_machine(plan.device_count());
  const std::int64_t peak = engine.predict_peak_bytes(plan.movement, options.element_size, options.tiles);
  const auto per_device = checked_add(peak, bookkeeping_bytes);
  const auto needed = checked_multiply(per_device.value_or(INT64_MAX), devices);
  const auto available = engine.available_memory();
  if (needed && (!available || *needed <= *available)) return;
  throw RuntimeError(fmt::format("the run needs {} bytes for the tiles of {} devices, and {} are free",
                                 needed.value_or(INT64_MAX), devices, available.value_or(0)));
}

RunReport run_plan(const Plan& plan, Engine& engine, const RunOptions& options) {
  // One process may find less memory than another: then all refuse.
  engine.processes().do_together([&] { require_memory(plan, engine, options); });
  RunReport report;
  report.id = plan.id;
  report.engine = engine.name();
  report.devices = plan.device_count();
  TileRun run(plan, engine, options);
  for (int i = 0; i < options.repetitions && !report.difference; ++i) {
    const RunStatistics statistics = run.execute();
    report.seconds.push_back(statistics.seconds);
    report.difference = engine.processes().first_text(run.difference());
    report.received_bytes_max = statistics.received_max;
    report.peak_bytes_predicted = statistics.peak_predicted;
    report.peak_bytes_measured = std::max(report.peak_bytes_measured, statistics.peak_measured);
  }
  return report;
}

std::string to_json(const RunReport& report) {
  nlohmann::ordered_json json;
  json["format"] = json_format;
  json["id"] = report.id;
  json["engine"] = report.engine;
  json["devices"] = report.devices;
  json["verified"] = !report.difference.has_value();
  json["seconds"] = report.seconds;
  json["received_bytes_max"] = report.received_bytes_max;
  json["peak_bytes"] = {{"predicted", report.peak_bytes_predicted}, {"measured", report.peak_bytes_measured}};
  // An id may come from anywhere: what is not UTF-8 in it is replaced.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace retile
