#include "retile/engines/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/array.h"
#include "retile/engines/reference/reference.h"

namespace retile {
namespace {

// Memory that the system can give without swapping, in bytes; nothing where it does not say.
std::optional<std::int64_t> available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kibibytes = 0;
  std::string unit;
  while (file >> name >> kibibytes >> unit) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return std::nullopt;
}

// Per device, for the boxes and allocations of the two tiles that may be alive at once.
constexpr std::int64_t bookkeeping_bytes = 512;

}  // namespace

const char* name_of(EngineKind) { return "reference"; }

std::optional<EngineKind> find_engine(std::string_view name) {
  if (name == name_of(EngineKind::reference)) return EngineKind::reference;
  return std::nullopt;
}

void require_memory(const Plan& plan, std::int64_t element_size) {
  const std::int64_t devices = plan.mesh().device_count();
  const std::int64_t array = checked_bytes(plan.source.global_size(), element_size);
  const auto per_device = checked_add(predict_peak_bytes(movement_of(plan), element_size), bookkeeping_bytes);
  const std::int64_t tiles = checked_multiply(per_device.value_or(INT64_MAX), devices).value_or(INT64_MAX);
  const auto needed = checked_add(array, tiles);
  const auto available = available_memory();
  if (needed && (!available || *needed <= *available)) return;
  throw RuntimeError(
      fmt::format("the run needs {} bytes for the array and {} for the tiles of {} devices, and {} are free", array,
                  tiles, devices, available.value_or(0)));
}

RunReport run_plan(const Plan& plan, const RunOptions& options) {
  require_memory(plan, options.element_size);
  RunReport report;
  report.id = plan.id;
  report.engine = options.engine;
  report.devices = plan.mesh().device_count();
  const std::unique_ptr<Engine> engine = make_reference_engine();
  const std::unique_ptr<PreparedRun> prepared = engine->prepare(movement_of(plan), options.element_size);
  const Tile array = make_array(plan.source.global_shape(), options.element_size, options.seed);
  for (int i = 0; i < options.repetitions && !report.difference; ++i) {
    Tiles tiles = slice_array(array, Placement(plan.source), options.element_size);
    const EngineStatistics statistics = prepared->execute(tiles);
    report.seconds.push_back(statistics.seconds);
    report.difference = find_difference(array, tiles, Placement(plan.target), options.element_size);
    report.received_bytes_max = statistics.received_max;
    report.peak_bytes_predicted = statistics.peak_predicted;
    report.peak_bytes_measured = std::max(report.peak_bytes_measured, statistics.peak_measured);
  }
  return report;
}

std::string to_json(const RunReport& report) {
  nlohmann::ordered_json json;
  json["id"] = report.id;
  json["engine"] = name_of(report.engine);
  json["devices"] = report.devices;
  json["verified"] = !report.difference.has_value();
  json["seconds"] = report.seconds;
  json["received_bytes_max"] = report.received_bytes_max;
  json["peak_bytes"] = {{"predicted", report.peak_bytes_predicted}, {"measured", report.peak_bytes_measured}};
  // An id may come from anywhere: what is not UTF-8 in it is replaced.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace retile
