// Options of the MPI engine. This header needs no MPI.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/plan/memory.h"
#include "retile/types/mesh.h"

namespace retile::mpi {

enum class Transport {
  automatic,    // ranks of one host read each other's tiles, ranks of different hosts send messages or gather by MPI
  collectives,  // MPI's collectives for alltoall and allgather, messages for the rest
  messages,     // messages for everything, also within a host
};

constexpr std::string_view transport_names = "auto, collectives, messages";

const char* name_of(Transport transport);
std::optional<Transport> find_transport(std::string_view name);

enum class HostView {
  detected,
  every_rank_alone,  // as if each rank were on a host of its own
};

// Whether ranks of one host read tiles that are not in shared memory through the system, where runs are long enough.
// Otherwise such tiles are packed and unpacked in pieces.
enum class Reading {
  measured,  // where a trial at the start finds it faster
  always,    // where the system lets them
  never,
};

// Messages between ranks of one host that the sender packs, and lanes that share room for them at once. All are in
// caches that the host's cores share, and short enough that a receiver begins soon.
struct NearMessages {
  std::int64_t most_bytes = 128 << 10;
  std::int64_t lanes_at_once = 8;

  bool operator==(const NearMessages&) const = default;
};

constexpr std::int64_t least_staging = 4096;  // bytes
constexpr std::int64_t most_staging = std::int64_t{1} << 30U;

// Options of the MPI engine; all ranks give the same.
struct MpiOptions {
  Transport transport = Transport::automatic;
  // The most bytes that a rank has besides tiles, from least_staging to most_staging.
  std::int64_t staging_bytes = std::int64_t{8} << 20U;
  std::vector<Device> device_map;  // devices rank by rank; empty: the first ones on rank 0 and so on
  HostView hosts = HostView::detected;
  Reading reading = Reading::measured;
  NearMessages near = {};
  std::int64_t listed_bytes = usual_listed_bytes;  // at most, of a prepared run's lists of copies on a rank
  // The rate of the link out of each device's host (Machine::link_rates()): hosts that hold the same elements share
  // what crosses in proportion. Empty, or of another number of devices: equally.
  std::vector<double> link_rates = {};

  bool operator==(const MpiOptions&) const = default;
};

// "row-major", which is the empty list, or "0,2,1,3". Throws InputError.
std::vector<Device> parse_device_map(const SourceText& source);

}  // namespace retile::mpi
