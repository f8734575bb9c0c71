// Traffic of a stage: what a copy from tiles to tiles moves between hosts and inside them.
//
// An element enters a host once: of the devices there that want it and have no holder beside them, each receives an
// equal part, and passes it on to the others. Holders on the own host come first, and all that can send an element
// share it evenly. That is how engines run stages (schedule/cells.h).
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/placement.h"

namespace retile {

// In elements.
struct HostTraffic {
  double out = 0;
  double in = 0;
  double only = 0;  // that no other host holds, and another one wants

  bool operator==(const HostTraffic&) const = default;
};

// In elements, and in messages that are sent or received one after the other.
struct DeviceTraffic {
  double written = 0;   // its tile after the stage
  double received = 0;  // inside the host, from tiles before the stage
  double sent = 0;
  double entered = 0;          // from other hosts
  double passed_received = 0;  // inside the host, of what entered it
  double passed_sent = 0;
  std::int64_t messages = 0;  // inside the host, from tiles before the stage
  std::int64_t crossing_messages = 0;
  std::int64_t passed_messages = 0;
};

struct StageTraffic {
  std::vector<HostTraffic> hosts;
  std::vector<DeviceTraffic> devices;
  // Whether tiles are equal or share nothing, before and after. Otherwise elements may be counted more than once.
  bool are_tiles_apart = true;
};

// Where devices are: those of each host, and the host of each.
struct HostMap {
  const std::vector<std::vector<Device>>& hosts;
  const std::vector<std::int64_t>& host_of;
};

// From placements of one array on the devices of the map.
StageTraffic find_traffic(const Placement& before, const Placement& after, const HostMap& map);
// The same, cell by cell, whatever the tiles are. Where these are grids, the function above takes time per device
// rather than per pair of tiles.
StageTraffic find_cell_traffic(const Placement& before, const Placement& after, const HostMap& map);

}  // namespace retile
