#include "retile/transfer/seconds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "retile/base/list.h"
#include "retile/plan/text.h"

namespace retile::transfer {
namespace {

using Messages = std::int64_t DeviceTraffic::*;

// Messages that devices send and receive, each the larger number.
class MessageCount {
 public:
  explicit MessageCount(std::size_t devices) : sent_(devices), received_(devices) {}

  void add(const StreamPlan::Stream& stream, std::int64_t messages) {
    at(sent_, stream.from) += messages;
    at(received_, stream.to) += messages;
  }
  void write(std::vector<DeviceTraffic>& devices, Messages messages) const {
    for (std::size_t i = 0; i < devices.size(); ++i) devices[i].*messages = std::max(sent_[i], received_[i]);
  }

 private:
  std::vector<std::int64_t> sent_;
  std::vector<std::int64_t> received_;
};

// In bytes.
StageTraffic traffic_of(const StreamPlan& plan, const Machine& machine) {
  const std::vector<std::int64_t> host_of = machine.host_numbers();
  StageTraffic traffic;
  traffic.hosts.resize(machine.hosts.size());
  traffic.devices.resize(host_of.size());
  for (std::size_t i = 0; i < host_of.size(); ++i) {
    traffic.devices[i].written = static_cast<double>(plan.loads()[i].target);
  }
  MessageCount inside(host_of.size());
  MessageCount crossing(host_of.size());
  MessageCount passed(host_of.size());
  for (const StreamPlan::Stream& stream : plan.streams()) {
    DeviceTraffic& from = at(traffic.devices, stream.from);
    DeviceTraffic& to = at(traffic.devices, stream.to);
    const auto bytes = static_cast<double>(stream.bytes);
    const std::int64_t messages = std::min(stream.bytes, plan.rounds(stream.phase));
    if (stream.phase == StreamPhase::passed_on) {
      from.passed_sent += bytes;
      to.passed_received += bytes;
      passed.add(stream, messages);
    } else if (at(host_of, stream.from) == at(host_of, stream.to)) {
      from.sent += bytes;
      to.received += bytes;
      inside.add(stream, messages);
    } else {
      at(traffic.hosts, at(host_of, stream.from)).out += bytes;
      at(traffic.hosts, at(host_of, stream.to)).in += bytes;
      to.entered += bytes;
      crossing.add(stream, messages);
    }
  }
  inside.write(traffic.devices, &DeviceTraffic::messages);
  crossing.write(traffic.devices, &DeviceTraffic::crossing_messages);
  passed.write(traffic.devices, &DeviceTraffic::passed_messages);
  return traffic;
}

}  // namespace

TransferTime predict_time(const StreamPlan& plan, const SecondsModel& model) {
  const StageTraffic traffic = traffic_of(plan, model.machine());
  return {model.stage_time(traffic, 1, INT64_MAX), model.least_time(traffic, 1)};
}

std::string time_line(const TransferTime& time) {
  return fmt::format("time      {}, {} of it {}; no transfer takes less than {}\n",
                     duration_text(time.predicted.picoseconds), duration_text(time.predicted.wait.picoseconds),
                     to_string(time.predicted.wait), duration_text(time.lower_bound.picoseconds));
}

}  // namespace retile::transfer
