#include "retile/transfer/seconds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "retile/base/list.h"
#include "retile/plan/text.h"

namespace retile::transfer {
namespace {

// The bytes of a message move for so many times its latency. Messages are prepared one after the other: those of
// streams that are an eighth as long as the longest still take no longer than their bytes.
constexpr double latencies_in_message = 8;
constexpr double most_hiding_bytes = 1 << 30;

std::int64_t hiding_bytes(double latency, double rate) {
  return static_cast<std::int64_t>(std::min(latencies_in_message * latency * rate, most_hiding_bytes));
}

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

MessageForm message_form(const Machine& machine, MessageForm form) {
  form.most_bytes = std::max(form.most_bytes, hiding_bytes(machine.inside_latency, machine.inside_rate));
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    // The devices of a host share its link.
    const double rate =
        std::max(machine.links[i].out, machine.links[i].in) / static_cast<double>(machine.hosts[i].size());
    form.least_crossing = std::max(form.least_crossing, hiding_bytes(machine.link_latency, rate));
  }
  form.most_crossing = std::max(form.most_crossing, form.least_crossing);
  form.link_rates = machine.link_rates();
  return form;
}

TransferTime predict_time(const StreamPlan& plan, const SecondsModel& model) {
  const StageTraffic traffic = traffic_of(plan, model.machine());
  return {model.stage_time(traffic, 1, CopiedRows()), model.least_time(traffic, 1)};
}

std::string time_line(const TransferTime& time) {
  return fmt::format("time      {}, {} of it {}; no transfer takes less than {}\n",
                     duration_text(time.predicted.picoseconds), duration_text(time.predicted.wait.picoseconds),
                     to_string(time.predicted.wait), duration_text(time.lower_bound.picoseconds));
}

}  // namespace retile::transfer
