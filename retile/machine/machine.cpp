#include "retile/machine/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "retile/base/input_errors.h"
#include "retile/base/json.h"
#include "retile/base/list.h"
#include "retile/base/unknown_keys.h"

namespace retile {
namespace {

constexpr std::string_view machine_keys =
    "format, name, hosts, link, inside, copy, spread, alone, step, programs, source";

// --- Reading.

double read_rate(const JsonReader& reader) {
  const double rate = reader.number();
  if (rate <= 0) reader.fail(fmt::format("{} must be above 0", reader.name()), "rates are in bytes a second");
  return rate;
}

double read_time(const JsonReader& reader) {
  const double time = reader.number();
  if (time < 0) reader.fail(fmt::format("{} is negative", reader.name()), "times are in seconds");
  return time;
}

double read_time_or_none(const JsonReader& reader, std::string_view key) {
  return reader.has(key) ? read_time(reader.member(key)) : 0;
}

// One number for all hosts, or one for each.
std::vector<double> read_host_rates(const JsonReader& reader, std::size_t hosts) {
  std::vector<double> rates;
  if (reader.value().as<JsonArray>() == nullptr) {
    rates.assign(hosts, read_rate(reader));
    return rates;
  }
  for (const JsonReader& element : reader.elements()) rates.push_back(read_rate(element));
  if (rates.size() != hosts) {
    reader.fail(fmt::format("{} has {} rate{}, and there {} {} host{}", reader.name(), rates.size(),
                            rates.size() == 1 ? "" : "s", hosts == 1 ? "is" : "are", hosts, hosts == 1 ? "" : "s"),
                "write one for each host, or a single number for all");
  }
  return rates;
}

void read_links(const JsonReader& reader, Machine& machine) {
  const std::size_t hosts = machine.hosts.size();
  const std::vector<double> out = read_host_rates(reader.member("out"), hosts);
  const std::vector<double> in = read_host_rates(reader.member("in"), hosts);
  for (std::size_t i = 0; i < hosts; ++i) machine.links.push_back({out[i], in[i]});
  machine.link_latency = read_time_or_none(reader, "latency");
}

std::vector<CopyRate> read_copy(const JsonReader& reader) {
  std::vector<CopyRate> copy;
  for (const JsonReader& entry : reader.elements()) {
    const std::vector<JsonReader> pair = entry.elements();
    if (pair.size() != 2) {
      entry.fail(fmt::format("{} must be a length and a rate", entry.name()), "write [bytes of a run, bytes a second]");
    }
    const CopyRate read{pair[0].size(), read_rate(pair[1])};
    if (!copy.empty() && read.run_bytes <= copy.back().run_bytes) {
      pair[0].fail(
          fmt::format("lengths of runs must ascend, and {} follows {}", read.run_bytes, copy.back().run_bytes));
    }
    copy.push_back(read);
  }
  if (copy.empty()) reader.fail(fmt::format("{} has no rates", reader.name()), "leave it out where copies are free");
  return copy;
}

// Pairs of a size, in ascending order, and a figure of it.
template <typename Entry, typename Read>
std::vector<Entry> read_table(const JsonReader& reader, const char* hint, Read read_figure) {
  std::vector<Entry> table;
  std::int64_t last = 0;
  for (const JsonReader& entry : reader.elements()) {
    const std::vector<JsonReader> pair = entry.elements();
    if (pair.size() != 2) entry.fail(fmt::format("{} must be two numbers", entry.name()), hint);
    const std::int64_t size = pair[0].size();
    if (size <= last) pair[0].fail(fmt::format("entries must ascend, and {} follows {}", size, last));
    last = size;
    table.push_back({size, read_figure(pair[1])});
  }
  if (table.empty()) reader.fail(fmt::format("{} has no entries", reader.name()), hint);
  return table;
}

CollectiveTimes read_collective(const JsonReader& reader) {
  return {
      read_table<CollectiveTimes::Latency>(reader.member("latency"), "write [devices of a group, seconds]", read_time),
      read_table<CollectiveTimes::Rate>(reader.member("rate"), "write [bytes, bytes a second]", read_rate)};
}

ProgramTimes read_programs(const JsonReader& reader) {
  return {read_time_or_none(reader, "start"), read_collective(reader.member("permute")),
          read_collective(reader.member("gather")), read_collective(reader.member("all_to_all"))};
}

// So many devices are listed: one that is listed twice, or has a number beyond theirs, leaves another one out.
void check_devices(const JsonReader& reader, const Machine& machine, InputFaults& faults) {
  const std::int64_t count = machine.device_count();
  std::vector<bool> is_listed(static_cast<std::size_t>(count));
  for (const std::vector<Device>& devices : machine.hosts) {
    for (const Device device : devices) {
      if (device >= 0 && device < count) at(is_listed, device) = true;
    }
  }
  const auto missing = std::find(is_listed.begin(), is_listed.end(), false) - is_listed.begin();
  std::vector<bool> seen(is_listed.size());
  for (const JsonReader& host : reader.elements()) {
    for (const JsonReader& element : host.elements()) {
      faults.attempt([&] {
        const Device device = element.integer();
        if (device < 0 || device >= count) {
          element.fail(fmt::format("device {} is listed, and device {} is on no host", device, missing),
                       "devices count from 0 and leave no number out");
        }
        if (at(seen, device)) element.fail(fmt::format("device {} is listed twice", device), "a device is on one host");
        at(seen, device) = true;
      });
    }
  }
}

void read_hosts(const JsonReader& reader, Machine& machine, InputFaults& faults) {
  for (const JsonReader& host : reader.elements()) {
    std::vector<Device> devices;
    for (const JsonReader& device : host.elements()) devices.push_back(device.integer());
    if (devices.empty()) host.fail(fmt::format("host {} has no devices", machine.hosts.size()));
    machine.hosts.push_back(std::move(devices));
  }
  if (machine.hosts.empty()) reader.fail("a machine has at least one host", "write [[0, 1, …]], a list for each host");
  check_devices(reader, machine, faults);
  machine.hosts_place = diagnose(reader.source(), reader.value().range(), Fault{});
}

void find_unknown_program_keys(const SourceText& source, JsonObject& programs, InputFaults& faults) {
  find_unknown_keys(source, programs, "start, permute, gather, all_to_all", faults);
  for (JsonMember& member : programs) {
    if (auto* times = member.value.as<JsonObject>()) find_unknown_keys(source, *times, "latency, rate", faults);
  }
}

Machine read_machine(const JsonReader& reader, InputFaults& faults) {
  Machine machine;
  const auto read = [&](const char* key, const auto& action) {
    faults.attempt([&] {
      if (reader.has(key)) action(reader.member(key));
    });
  };
  const bool has_hosts = faults.attempt([&] { read_hosts(reader.member("hosts"), machine, faults); });
  read("name", [&](const JsonReader& name) { machine.name = name.string(); });
  read("source", [&](const JsonReader& source) { machine.source = source.string(); });
  faults.attempt([&] {
    const JsonReader inside = reader.member("inside");
    machine.inside_rate = read_rate(inside.member("rate"));
    machine.inside_latency = read_time_or_none(inside, "latency");
  });
  faults.attempt([&] {
    const bool needs_links = machine.hosts.size() > 1;
    if (has_hosts && (needs_links || reader.has("link"))) read_links(reader.member("link"), machine);
  });
  read("copy", [&](const JsonReader& copy) { machine.copy = read_copy(copy); });
  read("spread", [&](const JsonReader& spread) {
    machine.spread = read_copy(spread);
    if (!reader.has("copy")) spread.fail("there are rates of rows that lie apart, and none of others", "add copy");
  });
  read("alone", [&](const JsonReader& alone) {
    machine.alone = alone.number();
    if (machine.alone < 1) alone.fail("alone is below 1", "a device is no slower where others are idle");
  });
  faults.attempt([&] { machine.step = read_time_or_none(reader, "step"); });
  read("programs", [&](const JsonReader& programs) { machine.programs = read_programs(programs); });
  return machine;
}

// --- Writing.

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A single number where all hosts have the same.
std::string host_rates_json(const std::vector<LinkRates>& links, double LinkRates::*side) {
  std::vector<double> rates;
  for (const LinkRates& link : links) rates.push_back(link.*side);
  const bool are_equal = std::all_of(rates.begin(), rates.end(), [&](double rate) { return rate == rates[0]; });
  return are_equal ? fmt::format("{}", rates[0]) : fmt::format("[{}]", fmt::join(rates, ", "));
}

std::string copy_json(const std::vector<CopyRate>& copy) {
  std::vector<std::string> pairs;
  for (const CopyRate& entry : copy) pairs.push_back(fmt::format("[{}, {}]", entry.run_bytes, entry.rate));
  return fmt::format("[{}]", fmt::join(pairs, ", "));
}

std::string to_json(const CollectiveTimes& times) {
  std::vector<std::string> latencies;
  std::vector<std::string> rates;
  for (const auto& [group, seconds] : times.latency) latencies.push_back(fmt::format("[{}, {}]", group, seconds));
  for (const auto& [bytes, rate] : times.rate) rates.push_back(fmt::format("[{}, {}]", bytes, rate));
  return fmt::format(R"({{"latency": [{}], "rate": [{}]}})", fmt::join(latencies, ", "), fmt::join(rates, ", "));
}

// --- Figures between two entries of a table.

// Where a size lies among the entries: the part of the way from one to the other.
struct Between {
  std::size_t below = 0;
  std::size_t above = 0;
  double part = 0;
};

template <typename Entry, typename Scale>
Between find_between(const std::vector<Entry>& table, std::int64_t Entry::*size, std::int64_t wanted, Scale scale) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Entry& entry) { return entry.*size >= wanted; });
  const auto above = static_cast<std::size_t>(std::min(found, table.end() - 1) - table.begin());
  if (found == table.end() || above == 0 || table[above].*size == wanted) return {above, above, 0};
  const double low = scale(table[above - 1].*size);
  return {above - 1, above, (scale(wanted) - low) / (scale(table[above].*size) - low)};
}

// The rate for a size, on logarithmic scales.
template <typename Entry>
double rate_between(const std::vector<Entry>& table, std::int64_t Entry::*size, std::int64_t wanted) {
  const auto log_of = [](std::int64_t number) { return std::log(static_cast<double>(number)); };
  const Between between = find_between(table, size, wanted, log_of);
  const double below = table[between.below].rate;
  const double above = table[between.above].rate;
  if (between.below == between.above) return above;
  const auto [low, high] = std::minmax(below, above);
  const double rate = std::exp(std::log(below) * (1 - between.part) + std::log(above) * between.part);
  return std::clamp(rate, low, high);  // logarithms are rounded
}

double rate_in(const std::vector<CopyRate>& copy, std::int64_t run_bytes) {
  if (copy.empty()) return std::numeric_limits<double>::infinity();
  return rate_between(copy, &CopyRate::run_bytes, run_bytes);
}

}  // namespace

double CollectiveTimes::latency_in(std::int64_t group) const {
  const auto as_is = [](std::int64_t number) { return static_cast<double>(number); };
  const Between between = find_between(latency, &Latency::group, group, as_is);
  return latency[between.below].seconds * (1 - between.part) + latency[between.above].seconds * between.part;
}

double CollectiveTimes::rate_of(std::int64_t bytes) const { return rate_between(rate, &Rate::bytes, bytes); }

std::int64_t Machine::device_count() const {
  std::int64_t count = 0;
  for (const std::vector<Device>& devices : hosts) count += static_cast<std::int64_t>(devices.size());
  return count;
}

std::vector<std::int64_t> Machine::host_numbers() const {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(device_count()));
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (const Device device : hosts[host]) at(numbers, device) = static_cast<std::int64_t>(host);
  }
  return numbers;
}

std::vector<double> Machine::link_rates() const {
  std::vector<double> rates;
  if (hosts.size() == 1) return rates;
  for (const std::int64_t host : host_numbers()) rates.push_back(at(links, host).out);
  return rates;
}

double Machine::copy_rate(std::int64_t run_bytes) const { return rate_in(copy, run_bytes); }

double Machine::spread_rate(std::int64_t run_bytes) const { return rate_in(spread.empty() ? copy : spread, run_bytes); }

Machine parse_machine(const SourceText& source) {
  JsonValue root = parse_json(source);
  const JsonReader reader(source, root, "the machine");
  if (root.as<JsonObject>() == nullptr) {
    reader.fail("a machine must be an object", R"(as in {"hosts": [[0, 1], [2, 3]], "link": …, "inside": …})");
  }
  reader.require_format();
  InputFaults faults;
  find_unknown_keys(source, *root.as<JsonObject>(), machine_keys, faults);
  for (JsonMember& member : *root.as<JsonObject>()) {
    auto* object = member.value.as<JsonObject>();
    if (object == nullptr) continue;
    if (member.key == "link") find_unknown_keys(source, *object, "out, in, latency", faults);
    if (member.key == "inside") find_unknown_keys(source, *object, "rate, latency", faults);
    if (member.key == "programs") find_unknown_program_keys(source, *object, faults);
  }
  Machine machine = read_machine(reader, faults);
  faults.require_none();
  return machine;
}

std::string to_json(const Machine& machine) {
  std::string text = fmt::format("{{\"format\": {}", json_format);
  if (!machine.name.empty()) text += fmt::format(", \"name\": {}", quoted(machine.name));
  text += ", \"hosts\": [";
  for (std::size_t i = 0; i < machine.hosts.size(); ++i) {
    text += fmt::format("{}[{}]", i == 0 ? "" : ", ", fmt::join(machine.hosts[i], ", "));
  }
  text += "]";
  if (!machine.links.empty()) {
    text += fmt::format(R"(, "link": {{"out": {}, "in": {}, "latency": {}}})",
                        host_rates_json(machine.links, &LinkRates::out), host_rates_json(machine.links, &LinkRates::in),
                        machine.link_latency);
  }
  text += fmt::format(R"(, "inside": {{"rate": {}, "latency": {}}})", machine.inside_rate, machine.inside_latency);
  if (!machine.copy.empty()) text += fmt::format(", \"copy\": {}", copy_json(machine.copy));
  if (!machine.spread.empty()) text += fmt::format(", \"spread\": {}", copy_json(machine.spread));
  if (machine.alone != 1) text += fmt::format(", \"alone\": {}", machine.alone);
  text += fmt::format(", \"step\": {}", machine.step);
  if (machine.programs) {
    const ProgramTimes& programs = *machine.programs;
    text +=
        fmt::format(R"(, "programs": {{"start": {}, "permute": {}, "gather": {}, "all_to_all": {}}})", programs.start,
                    to_json(programs.permute), to_json(programs.gather), to_json(programs.all_to_all));
  }
  if (!machine.source.empty()) text += fmt::format(", \"source\": {}", quoted(machine.source));
  return text + "}";
}

void require_devices(const Machine& machine, std::int64_t devices) {
  const std::int64_t count = machine.device_count();
  if (count == devices) return;
  Diagnostic fault = machine.hosts_place;
  fault.message = fmt::format("the machine has {} device{}, and the problem {}", count, count == 1 ? "" : "s", devices);
  throw InputError(std::move(fault));
}

}  // namespace retile
