// A machine: which devices are on which host, and how fast bytes move between them. A value, and a file
// (docs/formats.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/mesh.h"

namespace retile {

// The link of a host to all others, in bytes a second.
struct LinkRates {
  double out = 0;
  double in = 0;

  bool operator==(const LinkRates&) const = default;
};

// How fast a device copies rows of so many contiguous bytes, in bytes a second, while the others of its host do so too.
struct CopyRate {
  std::int64_t run_bytes = 1;
  double rate = 0;

  bool operator==(const CopyRate&) const = default;
};

// How long collectives of one kind take in compiled programs of tensors.
struct CollectiveTimes {
  // What a collective takes beside its bytes, in groups of so many devices.
  struct Latency {
    std::int64_t group = 1;
    double seconds = 0;

    bool operator==(const Latency&) const = default;
  };
  // How fast a device gets a result of so many bytes, in bytes a second.
  struct Rate {
    std::int64_t bytes = 1;
    double rate = 0;

    bool operator==(const Rate&) const = default;
  };
  std::vector<Latency> latency;  // by ascending group, at least one
  std::vector<Rate> rate;        // by ascending size, at least one

  // Figures of sizes between two entries are interpolated, those beyond the ends are that of the nearest entry:
  // latencies linearly, rates on logarithmic scales.
  double latency_in(std::int64_t group) const;
  double rate_of(std::int64_t bytes) const;

  bool operator==(const CollectiveTimes&) const = default;
};

// How long compiled programs of tensors take, which frameworks run (tensors/seconds.h).
struct ProgramTimes {
  double start = 0;  // what a run takes beside its operations
  CollectiveTimes permute;
  CollectiveTimes gather;
  CollectiveTimes all_to_all;

  bool operator==(const ProgramTimes&) const = default;
};

// Rates are in bytes a second, above 0 and finite; times are in seconds, from 0 and finite.
struct Machine {
  std::string name;
  std::vector<std::vector<Device>> hosts;  // the devices on each; every device is on one, and none is missing
  std::vector<LinkRates> links;            // by host; may be empty where there is one host
  double link_latency = 0;                 // of a message between hosts, before its first byte
  double inside_rate = 0;                  // of a device, to and from others on its host, each
  double inside_latency = 0;               // of a message inside a host
  std::vector<CopyRate> copy;              // by ascending length; none: copies take no time
  std::vector<CopyRate> spread;            // of rows that lie apart in the target's tile; none: as `copy`
  double alone = 1;                        // how many times as fast a device is where its host's others are idle
  double step = 0;                         // what a step takes beside its messages and bytes
  std::optional<ProgramTimes> programs;    // of the framework that the figures are of, if any
  std::string source;                      // where the figures are from, in words

  Diagnostic hosts_place;  // where a file lists the hosts, without a message; without a place if there is no file

  std::int64_t device_count() const;
  // The number of each device's host.
  std::vector<std::int64_t> host_numbers() const;
  // The rate of the link out of each device's host. Empty where there is one host.
  std::vector<double> link_rates() const;
  // The rate of copying runs of so many bytes, interpolated in the table on logarithmic scales; beyond its ends, the
  // rate of the nearest length. Infinite without a table.
  double copy_rate(std::int64_t run_bytes) const;
  // The same for runs that lie apart in the target's tile.
  double spread_rate(std::int64_t run_bytes) const;
};

// Throws InputErrors with all that is wrong.
Machine parse_machine(const SourceText& source);

// One line, without its end.
std::string to_json(const Machine& machine);

// Throws InputError, at the file's list of hosts where there is one, if the machine has another number of devices.
void require_devices(const Machine& machine, std::int64_t devices);

}  // namespace retile
