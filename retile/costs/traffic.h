// The traffic of a stage: what a copy from tiles to tiles moves between hosts and inside them.
//
// An element enters a host once. If several devices of the host want it and none of them holds it, each receives an
// equal part and passes it on to the others. Holders on the receiver's own host come first, and share it evenly. Other
// hosts that hold it share what crosses so that the busiest link is done first, and their devices evenly what falls to
// their host. Engines run stages in this way (schedule/stream_plan.h).
#pragma once

#include <cstdint>
#include <vector>

#include "retile/plan/senders.h"
#include "retile/types/placement.h"

namespace retile {

// A host's traffic over its link, in elements.
struct HostTraffic {
  double out = 0;
  double in = 0;
  double only = 0;  // elements that no other host holds, and some other host wants

  bool operator==(const HostTraffic&) const = default;
};

// A device's traffic: elements, and messages that are sent or received one after the other.
struct DeviceTraffic {
  double written = 0;   // elements of its tile after the stage
  double received = 0;  // inside the host, from tiles before the stage
  double sent = 0;
  double entered = 0;          // from other hosts
  double passed_received = 0;  // inside the host, of elements that entered it
  double passed_sent = 0;
  std::int64_t messages = 0;  // inside the host, from tiles before the stage
  std::int64_t crossing_messages = 0;
  std::int64_t passed_messages = 0;
};

struct StageTraffic {
  std::vector<HostTraffic> hosts;
  std::vector<DeviceTraffic> devices;
  // Whether any two tiles, before and after, are equal or share nothing. Otherwise elements may be counted more than
  // once.
  bool are_tiles_apart = true;
};

// The devices of each host, the host of each device, and how much hosts send in relation to each other, by host.
struct HostMap {
  const std::vector<std::vector<Device>>& hosts;
  const std::vector<std::int64_t>& host_of;
  const SenderWeights weights = {};
};

// The traffic between two placements of one array on the devices of the map.
StageTraffic find_traffic(const Placement& before, const Placement& after, const HostMap& map);
// The same traffic, counted cell by cell for any tiles. find_traffic() takes time per device rather than per pair of
// tiles if tiles form grids.
StageTraffic find_cell_traffic(const Placement& before, const Placement& after, const HostMap& map);

}  // namespace retile
