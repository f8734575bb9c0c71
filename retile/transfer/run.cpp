#include "retile/transfer/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "retile/base/error.h"
#include "retile/base/json.h"
#include "retile/base/mixing.h"
#include "retile/engines/available_memory.h"
#include "retile/transfer/pages.h"
#include "retile/transfer/streams.h"
#include "retile/transfer/text.h"
#include "retile/transfer/tiles.h"
#include "retile/transfer/verify.h"

namespace retile::transfer {
namespace {

// Processes with different ideas of the transfer would wait for each other forever, or write where they must not.
void require_same(const TransferPlan& plan, const Processes& processes) {
  std::uint64_t number = 0;
  const auto mix = [&](std::string_view text) {
    for (const char c : text) number = mix_bits(number ^ static_cast<unsigned char>(c));
  };
  mix(to_json(plan));
  for (const NamedArray& array : plan.manifest().arrays) mix(fmt::format("{} {};", array.name, array.problem));
  for (const Problem& problem : plan.manifest().problems) mix(retile::to_json(problem));
  const auto mine = static_cast<std::int64_t>(number >> 1U);
  if (processes.least(mine) == -processes.least(-mine)) return;
  throw RuntimeError("the processes were given different transfers");
}

// `peaks` are of all devices.
void require_memory(std::vector<std::int64_t> peaks, const Engine& engine) {
  const std::int64_t here = engine.devices_on_machine(static_cast<std::int64_t>(peaks.size()));
  std::sort(peaks.rbegin(), peaks.rend());  // which devices are here is not known: at worst the largest
  std::int64_t needed = 0;
  for (std::int64_t i = 0; i < here; ++i) needed += peaks[static_cast<std::size_t>(i)];
  const auto available = available_memory();
  if (!available || needed <= *available) return;
  throw RuntimeError(
      fmt::format("the transfer needs {} bytes for {} devices, and {} are free", needed, here, *available));
}

TransferReport report_of(const TransferPlan& plan, const Engine& engine) {
  TransferReport report;
  report.arrays = static_cast<std::int64_t>(plan.manifest().arrays.size());
  report.devices = plan.device_count();
  report.engine = engine.name();
  return report;
}

}  // namespace

std::int64_t most_of(const Processes& processes, const std::vector<std::int64_t>& bytes) {
  std::int64_t most = 0;
  for (const std::int64_t one : bytes) most = std::max(most, one);
  return -processes.least(-most);
}

PreparedTransfer::PreparedTransfer(const TransferPlan& plan, Engine& engine, std::span<const BufferStrides> strides)
    : devices_(engine.devices(plan.device_count())), processes_(&engine.processes()) {
  require_same(plan, *processes_);
  const std::vector<std::string> faults = find_faults(plan);
  if (!faults.empty()) throw InternalError("the transfer's plan is wrong: " + faults.front());
  streams_ = engine.prepare_streams(make_streams(plan, devices_, strides));
  if (plan.has_relays()) relays_ = engine.prepare_streams(make_streams(plan, devices_, strides, true));
  for (const Device device : devices_) most_staged_.push_back(plan.loads()[static_cast<std::size_t>(device)].staging);
}

StreamStatistics PreparedTransfer::execute(std::span<const std::byte* const> sources,
                                           std::span<std::byte* const> targets) {
  StreamStatistics statistics = streams_->execute(sources, targets);
  statistics.staging.resize(devices_.size());
  if (relays_) {
    streams_->free_staging();  // one of them at a time is within the cap
    const std::vector<const std::byte*> passed_on(targets.begin(), targets.end());
    StreamStatistics relayed = relays_->execute(passed_on, targets);
    relays_->free_staging();
    relayed.staging.resize(devices_.size());
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      statistics.received[i] += relayed.received[i];
      statistics.staging[i] = std::max(statistics.staging[i], relayed.staging[i]);
    }
    statistics.seconds += relayed.seconds;
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    ensure(statistics.staging[i] <= most_staged_[i], "engines stage no more than the plan says");
  }
  return statistics;
}

TransferReport run_transfer(const TransferPlan& plan, Engine& engine, const TransferRunOptions& options) {
  const Processes& processes = engine.processes();
  std::vector<std::int64_t> peaks;
  for (const DeviceLoad& load : plan.loads()) peaks.push_back(load.peak());
  processes.do_together([&] { require_memory(peaks, engine); });
  TransferReport report = report_of(plan, engine);
  report.peak_bytes_predicted = *std::max_element(peaks.begin(), peaks.end());
  PreparedTransfer prepared(plan, engine);
  std::optional<MadeTiles> tiles;
  processes.do_together([&] {
    tiles.emplace(plan, prepared.devices(), options.seed, [&](std::size_t bytes) { return engine.allocate(bytes); });
  });
  for (int i = 0; i < options.repetitions && !report.difference; ++i) {
    tiles->clear_targets();
    const StreamStatistics statistics = prepared.execute(tiles->sources(), tiles->targets());
    report.seconds.push_back(statistics.seconds);
    report.received_bytes_max = most_of(processes, statistics.received);
    std::int64_t peak = 0;
    for (std::size_t slot = 0; slot < statistics.staging.size(); ++slot) {
      peak = std::max(peak, tiles->bytes()[slot] + statistics.staging[slot]);
    }
    report.staging_bytes_max = most_of(processes, statistics.staging);
    report.peak_bytes_measured = -processes.least(-peak);
    report.difference = processes.first_text(tiles->difference());
  }
  return report;
}

TransferReport run_in_place(const TransferPlan& plan, Engine& engine, const TransferRunOptions& options) {
  TransferReport report = report_of(plan, engine);
  if (engine.processes().size() > 1) {
    throw RuntimeError(fmt::format("the {} engine does not move in place", engine.name()));
  }
  if (plan.has_relays()) throw RuntimeError("what is passed on within a host is not moved in place");
  const std::vector<Device> devices = engine.devices(plan.device_count());
  InPlaceTransfer in_place = make_in_place(plan, plan.max_bytes());
  const InPlaceSchedule& schedule = report.in_place.emplace(std::move(in_place.schedule));
  require_memory(schedule.peaks, engine);
  report.peak_bytes_predicted = *std::max_element(schedule.peaks.begin(), schedule.peaks.end());
  const std::unique_ptr<PreparedStreams> prepared = engine.prepare_streams(std::move(in_place.streams));
  for (int i = 0; i < options.repetitions && !report.difference; ++i) {
    const MadeTiles tiles(plan, devices, options.seed, make_page_buffer);
    PageMeter meter(tiles, devices.size());
    release(tiles, schedule.released.back());
    const StreamStatistics statistics =
        prepared->execute_rounds(tiles.sources(), tiles.targets(), [&](std::int64_t round) {
          meter.count();
          release(tiles, schedule.released[static_cast<std::size_t>(round)]);
        });
    report.seconds.push_back(statistics.seconds);
    report.received_bytes_max = most_of(engine.processes(), statistics.received);
    report.peak_bytes_measured = std::max(report.peak_bytes_measured, meter.peak());
    report.difference = tiles.difference();
  }
  return report;
}

std::string to_json(const TransferReport& report) {
  nlohmann::ordered_json json;
  json["format"] = json_format;
  json["arrays"] = report.arrays;
  json["devices"] = report.devices;
  json["engine"] = report.engine;
  json["verified"] = !report.difference.has_value();
  json["seconds"] = report.seconds;
  json["received_bytes_max"] = report.received_bytes_max;
  json["staging_bytes_max"] = report.staging_bytes_max;
  json["peak_bytes"] = {{"predicted", report.peak_bytes_predicted}, {"measured", report.peak_bytes_measured}};
  return json.dump();
}

}  // namespace retile::transfer
