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

constexpr std::string_view machine_keys = "format, name, hosts, link, inside, copy, step, source";

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
  faults.attempt([&] { machine.step = read_time_or_none(reader, "step"); });
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

}  // namespace

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

double Machine::copy_rate(std::int64_t run_bytes) const {
  if (copy.empty()) return std::numeric_limits<double>::infinity();
  const auto above =
      std::find_if(copy.begin(), copy.end(), [&](const CopyRate& entry) { return entry.run_bytes >= run_bytes; });
  if (above == copy.end()) return copy.back().rate;
  if (above == copy.begin() || above->run_bytes == run_bytes) return above->rate;
  const CopyRate& below = *(above - 1);
  const auto log_of = [](std::int64_t bytes) { return std::log(static_cast<double>(bytes)); };
  const double part =
      (log_of(run_bytes) - log_of(below.run_bytes)) / (log_of(above->run_bytes) - log_of(below.run_bytes));
  const double rate = std::exp(std::log(below.rate) * (1 - part) + std::log(above->rate) * part);
  const auto [low, high] = std::minmax(below.rate, above->rate);
  return std::clamp(rate, low, high);  // logarithms are rounded
}

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
  if (!machine.copy.empty()) {
    text += ", \"copy\": [";
    for (std::size_t i = 0; i < machine.copy.size(); ++i) {
      text += fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", machine.copy[i].run_bytes, machine.copy[i].rate);
    }
    text += "]";
  }
  text += fmt::format(", \"step\": {}", machine.step);
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
