#include "retile/costs/seconds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/list.h"
#include "retile/plan/memory.h"
#include "retile/plan/step_traits.h"

namespace retile {
namespace {

constexpr double picoseconds_in_second = 1e12;

// What searches add up is no more than this: more than 20 hours for one step, and a few hundred fit in 63 bits.
constexpr double most_estimated = static_cast<double>(std::int64_t{1} << 56U);

std::int64_t to_picoseconds(double seconds) {
  const double picoseconds = std::round(seconds * picoseconds_in_second);
  if (picoseconds < static_cast<double>(INT64_MAX)) return static_cast<std::int64_t>(picoseconds);
  throw InputError("the time of the plan does not fit in 63 bits", "times are counted in picoseconds");
}

// The longest of several things that happen at once.
struct Longest {
  Wait::Kind kind = Wait::Kind::nothing;
  std::int64_t number = 0;
  double seconds = 0;

  void offer(Wait::Kind other, std::int64_t other_number, double other_seconds) {
    if (other_seconds > seconds) *this = {other, other_number, other_seconds};
  }
};

// What the devices of a host do together.
struct HostSum {
  Device busiest = 0;
  double each = 0;  // where all do equally much of it

  template <typename AmountOf>
  HostSum(const std::vector<Device>& devices, const AmountOf& amount_of) {
    double most = -1;
    for (const Device device : devices) {
      const double amount = amount_of(device);
      each += amount / static_cast<double>(devices.size());
      if (amount > most) busiest = device;
      most = std::max(most, amount);
    }
  }
};

// Messages that the busiest device prepares one after the other.
struct InARow {
  std::int64_t count = 0;
  double seconds = 0;        // of all of them
  double first_seconds = 0;  // before the first byte, over all devices

  void offer(std::int64_t other_count, double other_seconds) {
    if (other_seconds > seconds) {
      count = other_count;
      seconds = other_seconds;
    }
  }
};

// What bytes and messages take together: while a device prepares a message, the bytes of those before it flow. Either
// the bytes wait for the first message, or the last message's share of the bytes follows all messages.
struct Overlapped {
  Longest bytes;
  Longest messages;

  Overlapped(const Longest& moved, const InARow& row) : bytes(moved) {
    messages = {Wait::Kind::messages, row.count, row.seconds};
    if (row.count == 0) return;
    const double last_bytes = moved.seconds / static_cast<double>(row.count);
    if (moved.seconds + row.first_seconds >= row.seconds + last_bytes) {
      messages = {Wait::Kind::messages, 1, row.first_seconds};
    } else {
      bytes.seconds = last_bytes;
    }
  }
};

// The time of things that follow each other.
StepTime add_up(std::initializer_list<Longest> parts) {
  StepTime time;
  double seconds = 0;
  Longest longest;
  for (const Longest& part : parts) {
    seconds += part.seconds;
    longest.offer(part.kind, part.number, part.seconds);
  }
  time.picoseconds = to_picoseconds(seconds);
  time.wait = {longest.kind, longest.number, to_picoseconds(longest.seconds)};
  return time;
}

// Rows of a copy between tiles, of which no more than `held` is read: in each dimension a piece is as long as the
// shorter tile, and rows go on as long as it fills both tiles in memory.
CopiedRows rows_between(const Shape& from, const Shape& held, const Shape& to, std::int64_t element_size) {
  std::int64_t row = 1;
  bool are_spread = false;
  for (std::size_t i = from.size(); i-- > 0;) {
    const std::int64_t shared = std::max<std::int64_t>(1, std::min(held[i], to[i]));
    row *= shared;
    are_spread = to[i] > shared;
    if (from[i] != shared || are_spread) break;
  }
  return {checked_multiply(row, element_size).value_or(INT64_MAX), are_spread};
}

const Shape& tile_of(const Placement& placement) {
  return placement.is_listed() ? placement.local_shape() : placement.tile_shape();
}

}  // namespace

SecondsModel::SecondsModel(Machine machine)
    : machine_(std::move(machine)), host_of_(machine_.host_numbers()), fastest_copy_(machine_.copy_rate(1)) {
  for (const CopyRate& copy : machine_.copy) fastest_copy_ = std::max(fastest_copy_, copy.rate);
  for (const CopyRate& copy : machine_.spread) fastest_copy_ = std::max(fastest_copy_, copy.rate);
  if (machine_.hosts.size() == 1) return;
  std::vector<double> out;
  for (const LinkRates& link : machine_.links) {
    fastest_link_ = std::max(fastest_link_, link.in);
    out.push_back(link.out);
  }
  link_weights_ = sender_weights(out);
}

double SecondsModel::least_latency() const {
  return machine_.hosts.size() == 1 ? machine_.inside_latency
                                    : std::min(machine_.inside_latency, machine_.link_latency);
}

StepTime SecondsModel::stage_time(const StageTraffic& traffic, std::int64_t element_size,
                                  const CopiedRows& rows) const {
  using Kind = Wait::Kind;
  const auto size = static_cast<double>(element_size);
  const double inside = machine_.inside_rate * machine_.alone;
  const double copying =
      machine_.alone * (rows.are_spread ? machine_.spread_rate(rows.bytes) : machine_.copy_rate(rows.bytes));
  Longest first;
  Longest second;  // what entered a host is passed on
  InARow first_messages;
  InARow second_messages;
  for (std::size_t i = 0; machine_.hosts.size() > 1 && i < traffic.hosts.size(); ++i) {
    const auto host = static_cast<std::int64_t>(i);
    first.offer(Kind::link_out, host, traffic.hosts[i].out * size / machine_.links[i].out);
    first.offer(Kind::link_in, host, traffic.hosts[i].in * size / machine_.links[i].in);
  }
  for (std::size_t i = 0; i < traffic.devices.size(); ++i) {
    const auto device = static_cast<std::int64_t>(i);
    const DeviceTraffic& of_device = traffic.devices[i];
    first.offer(Kind::sending, device, of_device.sent * size / inside);
    first.offer(Kind::receiving, device, of_device.received * size / inside);
    first.offer(Kind::copying, device, (of_device.written - of_device.passed_received) * size / copying);
    second.offer(Kind::sending, device, of_device.passed_sent * size / inside);
    second.offer(Kind::receiving, device, of_device.passed_received * size / inside);
    second.offer(Kind::copying, device, of_device.passed_received * size / copying);
    const double inside_seconds = static_cast<double>(of_device.messages) * machine_.inside_latency;
    const double crossing_seconds = static_cast<double>(of_device.crossing_messages) * machine_.link_latency;
    first_messages.offer(of_device.messages + of_device.crossing_messages, inside_seconds + crossing_seconds);
    second_messages.offer(of_device.passed_messages,
                          static_cast<double>(of_device.passed_messages) * machine_.inside_latency);
    const double longest_latency = std::max(of_device.messages > 0 ? machine_.inside_latency : 0,
                                            of_device.crossing_messages > 0 ? machine_.link_latency : 0);
    first_messages.first_seconds = std::max(first_messages.first_seconds, longest_latency);
  }
  for (const std::vector<Device>& devices : machine_.hosts) {
    const auto offer_host = [&](Longest& longest, Kind kind, double rate, const auto& amount_of) {
      const HostSum sum(devices, [&](Device device) { return amount_of(at(traffic.devices, device)); });
      longest.offer(kind, sum.busiest, sum.each * machine_.alone * size / rate);
    };
    offer_host(first, Kind::receiving, inside, [](const DeviceTraffic& device) { return device.received; });
    offer_host(first, Kind::copying, copying,
               [](const DeviceTraffic& device) { return device.written - device.passed_received; });
    offer_host(second, Kind::receiving, inside, [](const DeviceTraffic& device) { return device.passed_received; });
    offer_host(second, Kind::copying, copying, [](const DeviceTraffic& device) { return device.passed_received; });
  }
  second_messages.first_seconds = second_messages.count > 0 ? machine_.inside_latency : 0;
  const Overlapped before(first, first_messages);
  const Overlapped after(second, second_messages);
  return add_up({before.bytes, after.bytes, before.messages, after.messages, {Kind::step, 0, machine_.step}});
}

// Slices are views of the tiles before them. Between hosts, senders are chosen among all that hold an element, whatever
// the views; on one host, among those whose views have it.
StepTime SecondsModel::stage_time(const Placement& before, const Placement& held, const Placement& after,
                                  std::int64_t element_size) const {
  const Placement& read = machine_.hosts.size() > 1 ? before : held;
  const CopiedRows rows = rows_between(tile_of(before), tile_of(read), tile_of(after), element_size);
  return stage_time(find_traffic(read, after, host_map()), element_size, rows);
}

std::int64_t SecondsModel::cost(const StepWork& work) const {
  if (work.step() != nullptr) {
    return costs(
               Movement{world_mesh(work.placement_before()->device_count()), *work.placement_before(), {*work.step()}},
               work.element_size())
        .front();
  }
  if (!traits_of(work.op()).moves) return 0;
  const auto size = static_cast<double>(work.element_size());
  const double received =
      static_cast<double>(work.received()) * size / (machine_.inside_rate * machine_.alone + fastest_link_);
  const double copied = static_cast<double>(work.after()) * size / (fastest_copy_ * machine_.alone);
  const double latency = work.received() > 0 ? least_latency() : 0;
  const double seconds = std::max(received, copied) + latency + machine_.step;
  return static_cast<std::int64_t>(std::min(seconds * picoseconds_in_second, most_estimated));
}

std::vector<std::int64_t> SecondsModel::costs(const Movement& movement, std::int64_t element_size) const {
  std::vector<std::int64_t> costs;
  for (const StepTime& step : step_times(movement, element_size)) costs.push_back(step.picoseconds);
  return costs;
}

// A bound by sizes alone: elements have at least a byte.
std::int64_t SecondsModel::least_cost(std::int64_t received, std::int64_t target_size) const {
  return least_time({received, target_size, 0}, 1).picoseconds;
}

std::vector<StepTime> SecondsModel::step_times(const Movement& movement, std::int64_t element_size) const {
  std::vector<StepTime> times(movement.steps.size());
  for (const StageSteps& stage : stage_steps(movement.steps)) {
    const Placement& before = movement.before(stage.first);
    const Step& step = movement.steps[stage.last];
    if (op_of(step) == StepOp::reduce) {
      times[stage.last] = reduction_time(before, step.after, element_size);
    } else {
      times[stage.last] = stage_time(before, movement.before(stage.last), step.after, element_size);
    }
  }
  return times;
}

// Every device reads its parts, and writes one.
StepTime SecondsModel::reduction_time(const Placement& before, const Placement& after,
                                      std::int64_t element_size) const {
  const double bytes = static_cast<double>(before.local_size()) * static_cast<double>(element_size);
  const auto row = checked_multiply(std::max<std::int64_t>(1, after.local_size()), element_size);
  const Longest combined{Wait::Kind::copying, 0, bytes / machine_.copy_rate(row.value_or(INT64_MAX))};
  return add_up({combined, {Wait::Kind::step, 0, machine_.step}});
}

StepTime SecondsModel::least_time(const LeastTraffic& least, std::int64_t element_size) const {
  using Kind = Wait::Kind;
  const auto size = static_cast<double>(element_size);
  Longest longest;
  longest.offer(Kind::link_in, 0, least.link_seconds);
  longest.offer(Kind::receiving, 0,
                static_cast<double>(least.received) * size / (machine_.inside_rate * machine_.alone + fastest_link_));
  longest.offer(Kind::copying, 0, static_cast<double>(least.written) * size / (fastest_copy_ * machine_.alone));
  const Longest message{Kind::messages, 1, least.received > 0 ? least_latency() : 0};
  return add_up({longest, message, {Kind::step, 0, machine_.step}});
}

// Whatever the steps: an element that no device of a host holds enters it at least once; one that no other host holds,
// and another one wants, leaves; a device receives what it lacks, from its host or by its link, and writes its tile.
StepTime SecondsModel::least_time(const StageTraffic& traffic, std::int64_t element_size) const {
  using Kind = Wait::Kind;
  const auto size = static_cast<double>(element_size);
  const bool has_links = machine_.hosts.size() > 1;
  Longest longest;
  double latency = 0;
  for (std::size_t i = 0; has_links && i < machine_.hosts.size(); ++i) {
    const auto host = static_cast<std::int64_t>(i);
    longest.offer(Kind::link_in, host, traffic.hosts[i].in * size / machine_.links[i].in);
    longest.offer(Kind::link_out, host, traffic.hosts[i].only * size / machine_.links[i].out);
    if (traffic.hosts[i].in > 0) latency = machine_.link_latency;
  }
  for (std::size_t i = 0; i < traffic.devices.size(); ++i) {
    const auto device = static_cast<std::int64_t>(i);
    const DeviceTraffic& of_device = traffic.devices[i];
    const double lacking = of_device.received + of_device.entered + of_device.passed_received;
    const double link = has_links ? at(machine_.links, host_of_[i]).in : 0;
    longest.offer(Kind::receiving, device, lacking * size / (machine_.inside_rate * machine_.alone + link));
    longest.offer(Kind::copying, device, of_device.written * size / (fastest_copy_ * machine_.alone));
    if (lacking > 0 && !has_links) latency = machine_.inside_latency;
  }
  for (const std::vector<Device>& devices : machine_.hosts) {
    const HostSum written(devices, [&](Device device) { return at(traffic.devices, device).written; });
    longest.offer(Kind::copying, written.busiest, written.each * size / fastest_copy_);
  }
  return add_up({longest, {Kind::messages, 1, latency}, {Kind::step, 0, machine_.step}});
}

StepTime SecondsModel::least_time(const Movement& movement, std::int64_t floor, std::int64_t element_size) const {
  if (movement.steps.empty()) return {};
  if (movement.source.global_shape() == movement.target().global_shape()) {
    const StageTraffic traffic = find_traffic(movement.source, movement.target(), host_map());
    if (traffic.are_tiles_apart) return least_time(traffic, element_size);
  }
  return least_time({floor, movement.target().local_size(), 0}, element_size);
}

PlanTime SecondsModel::time(const Movement& movement, std::int64_t floor, std::int64_t element_size) const {
  PlanTime time{machine_.name, step_times(movement, element_size), 0, least_time(movement, floor, element_size)};
  for (const StepTime& step : time.steps) {
    const auto sum = checked_add(time.total, step.picoseconds);
    if (!sum) throw InputError("the time of the plan does not fit in 63 bits", "times are counted in picoseconds");
    time.total = *sum;
  }
  // Each time is rounded by itself.
  time.lower_bound.picoseconds = std::min(time.lower_bound.picoseconds, time.total);
  return time;
}

std::int64_t SecondsModel::least_stage() const { return to_picoseconds(machine_.step); }

const SecondsModel& seconds_model(const Machine& machine) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<const SecondsModel>> models;
  std::string text = to_json(machine);
  const std::lock_guard lock(mutex);
  std::unique_ptr<const SecondsModel>& model = models[std::move(text)];
  if (model == nullptr) model = std::make_unique<const SecondsModel>(machine);
  return *model;
}

}  // namespace retile
