#include "retile/transfer/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "retile/base/json.h"
#include "retile/plan/text.h"

namespace retile::transfer {
namespace {

using Json = nlohmann::ordered_json;
using Field = std::int64_t DeviceLoad::*;

// Over the devices that have some.
struct Range {
  std::int64_t devices = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

Range range_of(const StreamPlan& plan, Field field) {
  Range range;
  for (const DeviceLoad& load : plan.loads()) {
    const std::int64_t bytes = load.*field;
    if (bytes == 0) continue;
    range.least = range.devices++ == 0 ? bytes : std::min(range.least, bytes);
    range.most = std::max(range.most, bytes);
  }
  return range;
}

std::string bytes_between(std::int64_t least, std::int64_t most) {
  if (least == most) return count_of(most, "byte");
  return fmt::format("{} to {}", group_digits(least), count_of(most, "byte"));
}

std::string text_of(const Range& range) {
  if (range.devices == 0) return "nothing";
  return fmt::format("{}, {}", bytes_between(range.least, range.most), count_of(range.devices, "device"));
}

// The load of the device that holds the most.
const DeviceLoad& fullest(const StreamPlan& plan) {
  return *std::max_element(plan.loads().begin(), plan.loads().end(),
                           [](const DeviceLoad& a, const DeviceLoad& b) { return a.peak() < b.peak(); });
}

std::int64_t sum_of(const StreamPlan& plan, Field field) {
  std::int64_t sum = 0;
  for (const DeviceLoad& load : plan.loads()) sum += load.*field;
  return sum;
}

// What the busiest device sends beyond the bound, in percent.
double gap_of(const StreamPlan& plan) {
  const std::int64_t most = range_of(plan, &DeviceLoad::sent).most;
  if (most == 0) return 0;
  return 100.0 * static_cast<double>(most - plan.sent_bound()) / static_cast<double>(plan.sent_bound());
}

Json json_of(const StreamPlan& plan, Field field) {
  Json list = Json::array();
  for (const DeviceLoad& load : plan.loads()) list.push_back(load.*field);
  return list;
}

}  // namespace

std::string to_string(const StreamPlan& plan, const InPlaceFigures* in_place) {
  std::string text =
      fmt::format("{} of {} on {}, {} to move\n", count_of(static_cast<std::int64_t>(plan.array_count()), "array"),
                  count_of(static_cast<std::int64_t>(plan.classes().size()), "kind"),
                  count_of(plan.device_count(), "device"), count_of(sum_of(plan, &DeviceLoad::lacking), "byte"));
  text += fmt::format("sent      {}; at least {} by the busiest, gap {:.3f} %\n",
                      text_of(range_of(plan, &DeviceLoad::sent)), group_digits(plan.sent_bound()), gap_of(plan));
  const bool is_floor = std::all_of(plan.loads().begin(), plan.loads().end(),
                                    [](const DeviceLoad& load) { return load.received == load.lacking; });
  text += fmt::format("received  {}; {}\n", text_of(range_of(plan, &DeviceLoad::received)),
                      is_floor ? "what each lacks, once" : "more than what they lack");
  text += fmt::format("rounds    {}, {}\n", group_digits(in_place != nullptr ? in_place->rounds : plan.rounds()),
                      count_of(in_place != nullptr ? messages_of(plan, *in_place) : plan.messages(), "message"));
  if (plan.crossing().size() > 1) {
    const auto [least, most] = std::minmax_element(plan.crossing().begin(), plan.crossing().end());
    text += fmt::format("hosts     {}, {} into each, once; {} to pass on\n", plan.crossing().size(),
                        bytes_between(*least, *most), count_of(plan.rounds(StreamPhase::passed_on), "round"));
  }
  const DeviceLoad& load = fullest(plan);
  const std::string cap = group_digits(plan.max_bytes());
  if (in_place == nullptr) {
    return text + fmt::format("peak      {} per device at most: {} of tiles, {} staged (cap {})\n",
                              count_of(load.peak(), "byte"), group_digits(load.source + load.target),
                              group_digits(load.staging), cap);
  }
  text += fmt::format("peak      {} per device at most, in place: {} beyond the larger of source and target (cap {})\n",
                      count_of(in_place->peak, "byte"), group_digits(in_place->excess), cap);
  if (in_place->peak > load.peak()) {
    text += fmt::format("hint      where sources stay, {} per device are enough\n", count_of(load.peak(), "byte"));
  }
  return text;
}

std::string to_json(const StreamPlan& plan, const InPlaceFigures* in_place, const TransferTime* time) {
  Json json;
  json["format"] = json_format;
  json["arrays"] = plan.array_count();
  json["kinds"] = plan.classes().size();
  json["devices"] = plan.device_count();
  json["max_bytes"] = plan.max_bytes();
  json["rounds"] = in_place != nullptr ? in_place->rounds : plan.rounds();
  json["messages"] = in_place != nullptr ? messages_of(plan, *in_place) : plan.messages();
  if (plan.crossing().size() > 1) {
    json["relay_rounds"] = plan.rounds(StreamPhase::passed_on);
    json["crossing_bytes"] = plan.crossing();
  }
  if (time != nullptr) {
    const auto seconds = [](const StepTime& of) { return static_cast<double>(of.picoseconds) / 1e12; };
    json["seconds"] = {{"total", seconds(time->predicted)},
                       {"lower_bound", seconds(time->lower_bound)},
                       {"waits_for", retile::to_string(time->predicted.wait)}};
  }
  json["sent_bound_bytes"] = plan.sent_bound();
  json["sent_bytes"] = json_of(plan, &DeviceLoad::sent);
  json["received_bytes"] = json_of(plan, &DeviceLoad::received);
  json["floor_bytes"] = json_of(plan, &DeviceLoad::lacking);
  json["staging_bytes"] = in_place != nullptr ? Json(in_place->staging) : json_of(plan, &DeviceLoad::staging);
  json["peak_bytes"] = in_place != nullptr ? in_place->peak : fullest(plan).peak();
  if (in_place != nullptr) {
    json["in_place"] = {
        {"beyond_bytes", in_place->excess}, {"peak_bytes", in_place->peaks}, {"larger_bytes", in_place->larger}};
  }
  return json.dump();
}

}  // namespace retile::transfer
