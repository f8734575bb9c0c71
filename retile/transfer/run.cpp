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
#include "retile/schedule/planned_streams.h"
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
  std::vector<Processes::Named> named{{"the way", how.empty() ? "from source to target" : std::string(how)},
                                      {"the cap", fmt::format("{} bytes", plan.max_bytes())},
                                      {"the number of arrays", std::to_string(plan.manifest().arrays.size())}};
  for (std::size_t i = 0; i < plan.manifest().arrays.size(); ++i) {
    const NamedArray& array = plan.manifest().arrays[i];
    named.push_back({fmt::format("the name of array {}", i), fmt::format("\"{}\"", array.name)});
    named.push_back({fmt::format("array {}", i), to_string(plan.manifest().problems[array.problem])});
  }
  named.push_back({"the plan", to_json(plan)});
  processes.require_same("transfers", named);
  throw RuntimeError("the ranks were given different transfers");
}

// `peaks` are of all devices.
void require_memory(std::vector<std::int64_t> peaks, const Engine& engine) {
  const std::int64_t here = engine.devices_on_machine(static_cast<std::int64_t>(peaks.size()));
  std::sort(peaks.rbegin(), peaks.rend());  // which devices are here is not known: at worst the largest
  std::int64_t needed = 0;
  for (std::int64_t i = 0; i < here; ++i) needed += at(peaks, i);
  const auto available = engine.available_memory();
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

// What a device of this process holds at most, tiles and what is staged in the same stage.
std::int64_t most_held(const std::vector<std::int64_t>& tiles, const std::vector<std::int64_t>& staged) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < tiles.size(); ++i) most = std::max(most, tiles[i] + staged[i]);
  return most;
}

std::vector<Streams> phases_of(const TransferPlan& plan, const std::vector<Device>& devices,
                               std::span<const BufferStrides> strides) {
  std::vector<Streams> phases;
  phases.push_back(make_streams(plan, devices, {strides}));
  if (plan.has_relays()) phases.push_back(make_streams(plan, devices, {strides}, StreamPhase::passed_on));
  return phases;
}

}  // namespace

PreparedTransfer::PreparedTransfer(const TransferPlan& plan, Engine& engine, std::span<const BufferStrides> strides)
    : devices_(engine.devices(plan.device_count())), processes_(&engine.processes()) {
  const bool is_in_place = plan.sources() == TileUse::donated;
  if (is_in_place && !engine.has_host_memory() && processes_->size() > 1) {
    throw RuntimeError(fmt::format("the {} engine does not move in place between processes", engine.name()));
  }
  require_same(plan, *processes_, is_in_place ? "in place" : "");
  const std::vector<std::string> faults = find_faults(plan);
  if (!faults.empty()) throw InternalError("the transfer's plan is wrong: " + faults.front());
  std::vector<Streams> phases = phases_of(plan, devices_, strides);
  for (const Device device : devices_) most_staged_.push_back(at(plan.loads(), device).staging);
  if (is_in_place) {
    ensure(strides.empty(), "in place, tiles are packed");
    if (engine.has_host_memory()) {
      figures_ = choose_in_place(plan, devices_, *processes_, phases.front(), engine.find_staged(phases.front()));
      require_cap(plan, *figures_);
      schedule_ = make_schedule(phases.front(), devices_);
    } else {
      join(plan, engine, phases.front());
    }
    const std::vector<std::int64_t> relayed = plan.relay_staging();
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      most_staged_[i] = std::max(figures_->staging[i], at(relayed, devices_[i]));
      ensure(most_staged_[i] <= plan.max_bytes() || processes_->size() == 1, "what is staged is within the cap");
    }
  }
  run_ = engine.prepare_transfer(std::move(phases));
}

// Pages are predicted as if the tiles of a device were one.
void PreparedTransfer::join(const TransferPlan& plan, Engine& engine, Streams& streams) {
  joined_.emplace(Joined{JoinedSides(plan), engine.page_bytes(), {}, {}, {}});
  Streams joined = join_tiles(streams, joined_->sides);
  figures_ =
      choose_in_place(plan, devices_, *processes_, joined, engine.find_staged(streams), joined_->page, &joined_->sides);
  require_cap(plan, *figures_);
  streams.rounds = joined.rounds;
  joined_->schedule = make_schedule(joined, joined_->sides, devices_, joined_->page);
  for (const NamedArray& array : plan.manifest().arrays) {
    const std::int64_t element = bytes_of(plan.manifest().problems[array.problem].element_type());
    for (const Device device : devices_) {
      joined_->source_bytes.push_back(plan.source(array.problem).size(device) * element);
      joined_->target_bytes.push_back(plan.target(array.problem).size(device) * element);
    }
  }
}

RunStatistics PreparedTransfer::statistics() {
  RunStatistics statistics = run_->statistics();
  for (const std::vector<std::int64_t>& staged : statistics.staging) {
    for (std::size_t i = 0; i < staged.size(); ++i) {
      ensure(staged[i] <= most_staged_[i], "engines stage no more than the plan says");
    }
  }
  return statistics;
}

void PreparedTransfer::give_back(const std::vector<PageRange>& pages) {
  for (const PageRange& range : pages) run_->give_back(range.first, range.bytes);
}

void PreparedTransfer::find_first_elements(Sources sources) {
  from_.clear();
  for (const std::span<const std::byte> source : sources) from_.push_back(source.data());
}

void PreparedTransfer::start(Sources sources, std::span<std::byte* const> targets,
                             const std::function<void()>& before_release) {
  find_first_elements(sources);
  if (!figures_) return run_->start(from_, targets);
  find_pages(sources, targets);
  const auto begin_round = [this](std::int64_t round) {
    if (!joined_ || round == joined_->schedule.rounds) return;
    for (const PageRange& range : at(taken_, round)) run_->take(range.first, range.bytes);
  };
  give_back(released_.back());
  begin_round(0);
  run_->start_in_place(from_, targets, [this, before_release, begin_round](std::int64_t round) {
    if (before_release) before_release();
    give_back(at(released_, round));
    begin_round(round + 1);
  });
}

void PreparedTransfer::find_pages(Sources sources, std::span<std::byte* const> targets) {
  if (!joined_) {
    released_ = find_released(schedule_, sources);
    return;
  }
  const auto& [sides, page, schedule, source_bytes, target_bytes] = *joined_;
  const std::vector<const std::byte*> all_targets(targets.begin(), targets.end());
  const auto from = find_joined(sides.sources, from_, source_bytes, devices_, page);
  const auto to = find_joined(sides.targets, all_targets, target_bytes, devices_, page);
  // No bytes: throw where the memory is of another kind, before anything moves.
  for (const std::byte* first : from) {
    if (first != nullptr) run_->give_back(first, 0);
  }
  for (const std::byte* first : to) {
    if (first != nullptr) run_->take(first, 0);
  }
  released_ = pages_by_round(schedule.last_reads, from, schedule.rounds, page);
  taken_ = pages_by_round(schedule.first_writes, to, schedule.rounds, page);
}

void PreparedTransfer::run(Sources sources, std::span<std::byte* const> targets,
                           const std::function<void()>& before_release) {
  if (figures_) {
    start(sources, targets, before_release);
    return wait();
  }
  find_first_elements(sources);
  run_->run(from_, targets);
}

// --- Runs on made-up data.

namespace {

// Asks the system which pages of made-up tiles are in memory.
class PageMeter {
 public:
  // Counts once. The engine and the tiles outlive it.
  PageMeter(const Engine& engine, const MadeTiles& tiles, std::size_t devices)
      : engine_(engine), tiles_(tiles), peaks_(devices) {
    count();
  }

  void count() {
    std::vector<std::int64_t> bytes(peaks_.size());
    for (const std::vector<Buffer>* memory : {&tiles_.source_memory(), &tiles_.target_memory()}) {
      for (std::size_t i = 0; i < memory->size(); ++i) {
        bytes[i % bytes.size()] += engine_.resident_bytes((*memory)[i]);
      }
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) peaks_[i] = std::max(peaks_[i], bytes[i]);
  }
  // Bytes by device, the most of all counts.
  const std::vector<std::int64_t>& peaks() const { return peaks_; }

 private:
  const Engine& engine_;
  const MadeTiles& tiles_;
  std::vector<std::int64_t> peaks_;
};

// The made-up tiles of a run. In place, their pages are counted.
class CheckedTransfer {
 public:
  CheckedTransfer(const TransferPlan& plan, Engine& engine, const TransferRunOptions& options)
      : plan_(plan), engine_(engine), options_(options), prepared_(plan, engine) {}

  const std::optional<InPlaceFigures>& in_place() const { return prepared_.in_place(); }
  void write_targets() const {
    prepared_.processes().do_together([&] { tiles_->write_targets(); });
  }

  void add_repetition(TransferReport& report) {
    if (!tiles_ || in_place()) make_tiles();
    if (!in_place()) tiles_->clear_targets();
    std::optional<PageMeter> meter;
    if (in_place()) meter.emplace(engine_, *tiles_, prepared_.devices().size());
    prepared_.run(source_memory(), tiles_->targets(), [&] { meter->count(); });
    const RunStatistics statistics = prepared_.statistics();
    const Processes& processes = prepared_.processes();
    report.seconds.push_back(statistics.seconds);
    report.received_bytes_max = statistics.received_max;
    report.staging_bytes_max = statistics.staging_max;
    std::int64_t held = 0;
    for (const std::vector<std::int64_t>& staged : statistics.staging) {
      held = std::max(held, most_held(meter ? meter->peaks() : tiles_->bytes(), staged));
      if (meter) meter.emplace(engine_, *tiles_, prepared_.devices().size());  // after the rounds
    }
    if (meter) held = std::max(held, most_held(meter->peaks(), statistics.staging.back()));
    report.peak_bytes_measured = std::max(report.peak_bytes_measured, processes.most(held));
    report.difference = processes.first_text(tiles_->difference());
  }

 private:
  void make_tiles() {
    tiles_.reset();
    const auto allocate = [&](std::size_t bytes, Engine::Pages pages) {
      return in_place() ? engine_.allocate_pages(bytes, pages) : engine_.allocate(bytes);
    };
    prepared_.processes().do_together(
        [&] { tiles_.emplace(plan_, prepared_.devices(), options_.seed, engine_, allocate, options_.contents); });
  }

  // All that the system gave.
  std::vector<std::span<const std::byte>> source_memory() const {
    std::vector<std::span<const std::byte>> sources;
    for (const Buffer& source : tiles_->source_buffers()) {
      const std::int64_t pages = divide_up(static_cast<std::int64_t>(source.size()), page_bytes());
      sources.emplace_back(source.data(), static_cast<std::size_t>(pages * page_bytes()));
    }
    return sources;
  }

  const TransferPlan& plan_;
  Engine& engine_;
  const TransferRunOptions options_;
  PreparedTransfer prepared_;
  std::optional<MadeTiles> tiles_;
};

}  // namespace

TransferReport run_transfer(const TransferPlan& plan, Engine& engine, const TransferRunOptions& options) {
  const Processes& processes = engine.processes();
  TransferReport report = report_of(plan, engine);
  std::vector<std::int64_t> peaks;
  for (const DeviceLoad& load : plan.loads()) peaks.push_back(load.peak());
  if (plan.sources() == TileUse::kept) processes.do_together([&] { require_memory(peaks, engine); });
  CheckedTransfer transfer(plan, engine, options);
  report.in_place = transfer.in_place();
  if (report.in_place) {
    peaks.assign(peaks.size(), report.in_place->peak);
    processes.do_together([&] { require_memory(peaks, engine); });
  }
  report.peak_bytes_predicted = *std::max_element(peaks.begin(), peaks.end());
  for (int i = 0; i < options.repetitions && !report.difference; ++i) transfer.add_repetition(report);
  if (!report.difference) transfer.write_targets();
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
