#include "retile/transfer/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "retile/base/arithmetic.h"
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
void require_same(const TransferPlan& plan, const Processes& processes, std::string_view how) {
  std::uint64_t number = 0;
  const auto mix = [&](std::string_view text) {
    for (const char c : text) number = mix_bits(number ^ static_cast<unsigned char>(c));
  };
  mix(how);
  mix(to_json(plan));
  for (const NamedArray& array : plan.manifest().arrays) mix(fmt::format("{} {};", array.name, array.problem));
  for (const Problem& problem : plan.manifest().problems) mix(retile::to_json(problem));
  const auto mine = static_cast<std::int64_t>(number >> 1U);
  if (processes.least(mine) == processes.most(mine)) return;
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
  report.max_bytes = plan.max_bytes();
  return report;
}

// What both ways of running a plan ask of it.
void require_right(const TransferPlan& plan, const Processes& processes, std::string_view how) {
  require_same(plan, processes, how);
  const std::vector<std::string> faults = find_faults(plan);
  if (!faults.empty()) throw InternalError("the transfer's plan is wrong: " + faults.front());
}

// Null where nothing is passed on.
std::unique_ptr<PreparedStreams> prepare_relays(const TransferPlan& plan, Engine& engine,
                                                const std::vector<Device>& devices,
                                                std::span<const BufferStrides> strides) {
  return plan.has_relays() ? engine.prepare_streams(make_streams(plan, devices, strides, true)) : nullptr;
}

// After the streams from sources. Has an entry of staging for each device.
void pass_on(PreparedStreams& streams, PreparedStreams* relays, std::span<std::byte* const> targets,
             std::size_t devices, StreamStatistics& statistics) {
  statistics.staging.resize(devices);
  if (relays == nullptr) return;
  streams.free_staging();  // one of them at a time is within the cap
  const std::vector<const std::byte*> passed_on(targets.begin(), targets.end());
  StreamStatistics relayed = relays->execute(passed_on, targets);
  relays->free_staging();
  relayed.staging.resize(devices);
  for (std::size_t i = 0; i < devices; ++i) {
    statistics.received[i] += relayed.received[i];
    statistics.staging[i] = std::max(statistics.staging[i], relayed.staging[i]);
  }
  statistics.seconds += relayed.seconds;
}

void require_staged(const std::vector<std::int64_t>& staged, const std::vector<std::int64_t>& most) {
  for (std::size_t i = 0; i < staged.size(); ++i) {
    ensure(staged[i] <= most[i], "engines stage no more than the plan says");
  }
}

}  // namespace

std::int64_t most_of(const Processes& processes, const std::vector<std::int64_t>& bytes) {
  std::int64_t most = 0;
  for (const std::int64_t one : bytes) most = std::max(most, one);
  return processes.most(most);
}

namespace {

// The most that a device of any process holds at once, tiles and what is staged.
std::int64_t most_held(const Processes& processes, std::vector<std::int64_t> bytes,
                       const std::vector<std::int64_t>& staging) {
  for (std::size_t slot = 0; slot < staging.size(); ++slot) bytes[slot] += staging[slot];
  return most_of(processes, bytes);
}

}  // namespace

PreparedTransfer::PreparedTransfer(const TransferPlan& plan, Engine& engine, std::span<const BufferStrides> strides)
    : devices_(engine.devices(plan.device_count())), processes_(&engine.processes()) {
  ensure(plan.sources() == SourceMemory::kept, "what is planned for donated sources is run in place");
  require_right(plan, *processes_, "");
  streams_ = engine.prepare_streams(make_streams(plan, devices_, strides));
  relays_ = prepare_relays(plan, engine, devices_, strides);
  for (const Device device : devices_) most_staged_.push_back(plan.loads()[static_cast<std::size_t>(device)].staging);
}

StreamStatistics PreparedTransfer::execute(std::span<const std::byte* const> sources,
                                           std::span<std::byte* const> targets) {
  StreamStatistics statistics = streams_->execute(sources, targets);
  pass_on(*streams_, relays_.get(), targets, devices_.size(), statistics);
  require_staged(statistics.staging, most_staged_);
  return statistics;
}

PreparedInPlace::PreparedInPlace(const TransferPlan& plan, Engine& engine)
    : devices_(engine.devices(plan.device_count())), processes_(&engine.processes()) {
  require_right(plan, *processes_, "in place");
  Streams streams = make_streams(plan, devices_, {});
  figures_ = choose_in_place(plan, devices_, *processes_, streams);
  require_cap(plan, figures_);
  schedule_ = make_schedule(streams, devices_);
  streams_ = engine.prepare_streams(std::move(streams));
  relays_ = prepare_relays(plan, engine, devices_, {});
  const std::vector<std::int64_t> relayed = plan.relay_staging();
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    most_staged_.push_back(std::max(figures_.staging[i], relayed[static_cast<std::size_t>(devices_[i])]));
    ensure(most_staged_.back() <= plan.max_bytes() || processes_->size() == 1, "what is staged is within the cap");
  }
}

InPlaceStatistics PreparedInPlace::execute(std::span<const std::span<const std::byte>> sources,
                                           std::span<std::byte* const> targets,
                                           const std::function<void()>& before_release) {
  const std::vector<std::vector<PageRange>> released = find_released(schedule_, sources);
  const auto give_back = [&](const std::vector<PageRange>& pages) {
    for (const PageRange& range : pages) streams_->give_back(range.first, range.bytes);
  };
  std::vector<const std::byte*> from;
  for (const std::span<const std::byte> source : sources) from.push_back(source.data());
  give_back(released.back());
  StreamStatistics statistics = streams_->execute_rounds(from, targets, [&](std::int64_t round) {
    if (before_release) before_release();
    give_back(released[static_cast<std::size_t>(round)]);
  });
  statistics.staging.resize(devices_.size());
  InPlaceStatistics result{{}, statistics.staging};
  require_staged(result.staged_in_rounds, figures_.staging);
  pass_on(*streams_, relays_.get(), targets, devices_.size(), statistics);
  require_staged(statistics.staging, most_staged_);
  result.all = std::move(statistics);
  return result;
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
    report.staging_bytes_max = most_of(processes, statistics.staging);
    report.peak_bytes_measured = most_held(processes, tiles->bytes(), statistics.staging);
    report.difference = processes.first_text(tiles->difference());
  }
  return report;
}

TransferReport run_in_place(const TransferPlan& plan, Engine& engine, const TransferRunOptions& options) {
  const Processes& processes = engine.processes();
  TransferReport report = report_of(plan, engine);
  PreparedInPlace prepared(plan, engine);
  report.in_place = prepared.figures();
  report.peak_bytes_predicted = report.in_place->peak;
  const auto devices = static_cast<std::size_t>(plan.device_count());
  processes.do_together(
      [&] { require_memory(std::vector<std::int64_t>(devices, report.peak_bytes_predicted), engine); });
  for (int i = 0; i < options.repetitions && !report.difference; ++i) {
    std::optional<MadeTiles> tiles;
    processes.do_together([&] { tiles.emplace(plan, prepared.devices(), options.seed, make_page_buffer); });
    std::vector<std::span<const std::byte>> sources;
    for (const Buffer& source : tiles->source_buffers()) {
      const std::int64_t pages = divide_up(static_cast<std::int64_t>(source.size()), page_bytes());
      sources.emplace_back(source.data(), static_cast<std::size_t>(pages * page_bytes()));  // what the system gave
    }
    PageMeter meter(*tiles, prepared.devices().size());
    const auto [statistics, staged_in_rounds] = prepared.execute(sources, tiles->targets(), [&] { meter.count(); });
    report.seconds.push_back(statistics.seconds);
    report.received_bytes_max = most_of(processes, statistics.received);
    report.staging_bytes_max = most_of(processes, statistics.staging);
    const PageMeter after(*tiles, prepared.devices().size());
    report.peak_bytes_measured =
        std::max({report.peak_bytes_measured, most_held(processes, meter.peaks(), staged_in_rounds),
                  most_held(processes, after.peaks(), statistics.staging)});
    report.difference = processes.first_text(tiles->difference());
  }
  return report;
}

std::string to_json(const TransferReport& report) {
  nlohmann::ordered_json json;
  json["format"] = json_format;
  json["arrays"] = report.arrays;
  json["devices"] = report.devices;
  json["engine"] = report.engine;
  json["max_bytes"] = report.max_bytes;
  json["verified"] = !report.difference.has_value();
  json["seconds"] = report.seconds;
  json["received_bytes_max"] = report.received_bytes_max;
  json["staging_bytes_max"] = report.staging_bytes_max;
  json["peak_bytes"] = {{"predicted", report.peak_bytes_predicted}, {"measured", report.peak_bytes_measured}};
  if (report.in_place)
    json["in_place"] = {{"rounds", report.in_place->rounds}, {"beyond_bytes", report.in_place->excess}};
  return json.dump();
}

}  // namespace retile::transfer
