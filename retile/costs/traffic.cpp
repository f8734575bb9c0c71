#include "retile/costs/traffic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/list.h"
#include "retile/grids/box_index.h"
#include "retile/grids/held_boxes.h"
#include "retile/grids/tile_table.h"

namespace retile {
namespace {

// --- Grids: tiles by their numbers.

// One side of a stage: the tile of each device.
class GridTiles {
 public:
  explicit GridTiles(const Placement& placement)
      : array_(placement.global_shape()), tile_(placement.tile_shape()), grid_(placement.grid_extent()) {
    const auto devices = static_cast<std::size_t>(placement.device_count());
    corners_.resize(devices * rank());
    numbers_.resize(devices);
    for (std::size_t i = 0; i < rank(); ++i) grid_[i] /= tile_[i];
    for (std::size_t device = 0; device < devices; ++device) {
      const std::span<std::int64_t> corner(corners_.data() + device * rank(), rank());
      placement.offset(static_cast<Device>(device), corner);
      std::int64_t number = 0;
      for (std::size_t i = 0; i < rank(); ++i) number = number * grid_[i] + corner[i] / tile_[i];
      numbers_[device] = number;
    }
  }

  std::size_t rank() const { return array_.size(); }
  std::int64_t tile_count() const { return product(grid_); }
  std::int64_t number(Device device) const { return at(numbers_, device); }

  double size(Device device) const { return shared(device, *this, device); }

  // Elements of one device's tile that lie in another device's tile of the other side.
  double shared(Device device, const GridTiles& other, Device other_device) const {
    const std::int64_t* mine = corner(device);
    const std::int64_t* others = other.corner(other_device);
    double elements = 1;
    for (std::size_t i = 0; i < rank(); ++i) {
      const std::int64_t hi = std::min({mine[i] + tile_[i], others[i] + other.tile_[i], array_[i]});
      const std::int64_t lo = std::max(mine[i], others[i]);
      if (lo >= hi) return 0;
      elements *= static_cast<double>(hi - lo);
    }
    return elements;
  }

  // How many tiles of the other side the device's tile meets.
  std::int64_t count_met(Device device, const GridTiles& other) const {
    const std::int64_t* mine = corner(device);
    std::int64_t count = 1;
    for (std::size_t i = 0; i < rank(); ++i) {
      const std::int64_t hi = std::min(mine[i] + tile_[i], array_[i]);
      if (mine[i] >= hi) return 0;
      count *= (hi - 1) / other.tile_[i] - mine[i] / other.tile_[i] + 1;
    }
    return count;
  }

 private:
  const std::int64_t* corner(Device device) const {
    return corners_.data() + static_cast<std::size_t>(device) * rank();
  }

  Shape array_;
  Shape tile_;
  Grid grid_;
  std::vector<std::int64_t> corners_;  // by device and dimension
  std::vector<std::int64_t> numbers_;  // of tiles, by device
};

// Devices of a host that have the same tile.
struct TileMates {
  std::int64_t tile = 0;
  std::vector<Device> devices;
};

std::vector<TileMates> group_by_tile(const GridTiles& tiles, const std::vector<Device>& devices) {
  std::vector<Device> sorted = devices;
  std::stable_sort(sorted.begin(), sorted.end(), [&](Device a, Device b) { return tiles.number(a) < tiles.number(b); });
  std::vector<TileMates> groups;
  for (const Device device : sorted) {
    if (groups.empty() || groups.back().tile != tiles.number(device)) groups.push_back({tiles.number(device), {}});
    groups.back().devices.push_back(device);
  }
  return groups;
}

double count_of(const std::vector<Device>& devices) { return static_cast<double>(devices.size()); }

bool are_equal(const std::vector<std::int64_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t number) { return number == numbers[0]; });
}

// The most receivers that one of several senders meets who share what the receivers want: each has an equal stretch of
// it, which need not end where a receiver's part does.
std::int64_t most_met_by_share(std::int64_t receivers, std::int64_t senders) {
  return receivers == 0 ? 0 : divide_up(receivers + senders - std::gcd(receivers, senders), senders);
}

// Elements that hosts send to others, each from any of the hosts that hold it. Hosts go by their numbers.
class CrossingShares {
 public:
  explicit CrossingShares(const HostMap& map) : map_(map) {}

  // `hosts` are ascending.
  void add(const std::vector<std::int64_t>& hosts, double elements) {
    if (elements > 0) elements_[hosts] += elements;
  }

  // Adds to each host's traffic what it sends.
  void write(std::vector<HostTraffic>& hosts) const {
    double all = 0;
    for (const auto& [holders, elements] : elements_) all += elements;
    if (all == 0) return;
    const double unit = std::exp2(std::ceil(std::log2(all)) - unit_bits);
    std::vector<SenderDemand> demands;
    for (const auto& [holders, elements] : elements_) {
      if (holders.size() == 1) at(hosts, holders[0]).out += elements;  // whatever the others do
      demands.push_back({{holders.begin(), holders.end()}, std::llround(elements / unit)});
    }
    const auto shares = share_sending(demands, static_cast<std::int64_t>(hosts.size()), map_.weights).shares;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (demands[i].holders.size() == 1) continue;
      for (std::size_t j = 0; j < shares[i].size(); ++j) {
        at(hosts, demands[i].holders[j]).out += static_cast<double>(shares[i][j]) * unit;
      }
    }
  }

 private:
  // All amounts together are less than two to the power of this, in units, so that what is shared can be cut finely.
  static constexpr double unit_bits = 52;

  const HostMap& map_;
  std::map<std::vector<std::int64_t>, double> elements_;  // by the hosts that hold them
};

// What is known of a tile before the stage, over all hosts.
struct HeldTile {
  std::int64_t holders = 0;
  std::vector<std::int64_t> hosts;
  Device holder = 0;     // some
  double near = 0;       // elements that holders' hosts want, once for each
  double own = 0;        // of these, what no other host wants
  std::int64_t met = 0;  // devices on holders' hosts that want some of it
  double kept = 0;       // of one host: what holders keep, and how many do
  std::int64_t keepers = 0;
};

class GridTraffic {
 public:
  GridTraffic(const Placement& before, const Placement& after, const HostMap& map)
      : map_(map), held_(before), wanted_(after), crossing_(map) {}

  // Nothing where tiles have no holders, or some are on more devices or hosts than others: then cells are counted.
  std::optional<StageTraffic> find() {
    const auto devices = static_cast<std::int64_t>(map_.host_of.size());
    if (held_.tile_count() > devices || wanted_.tile_count() > devices) return std::nullopt;
    if (!count_holders()) return std::nullopt;
    traffic_.hosts.resize(map_.hosts.size());
    traffic_.devices.resize(map_.host_of.size());
    for (Device device = 0; device < devices; ++device) at(traffic_.devices, device).written = wanted_.size(device);
    if (map_.hosts.size() == 1) {
      add_only_host();
    } else {
      for (std::size_t host = 0; host < map_.hosts.size(); ++host) add_host(host);
      for (Device device = 0; device < devices; ++device) add_crossing(device);
      crossing_.write(traffic_.hosts);
    }
    return std::move(traffic_);
  }

 private:
  bool count_holders() {
    held_tiles_.resize(static_cast<std::size_t>(held_.tile_count()));
    std::vector<std::int64_t> wanting_devices(static_cast<std::size_t>(wanted_.tile_count()));
    std::vector<std::int64_t> wanting_hosts(wanting_devices.size());
    std::vector<std::int64_t> last_wanting(wanting_devices.size(), -1);  // host, by tile
    for (std::size_t host = 0; host < map_.hosts.size(); ++host) {
      const auto number = static_cast<std::int64_t>(host);
      for (const Device device : map_.hosts[host]) {
        HeldTile& tile = at(held_tiles_, held_.number(device));
        ++tile.holders;
        tile.holder = device;
        if (tile.hosts.empty() || tile.hosts.back() != number) tile.hosts.push_back(number);
        ++at(wanting_devices, wanted_.number(device));
        if (std::exchange(at(last_wanting, wanted_.number(device)), number) != number) {
          ++at(wanting_hosts, wanted_.number(device));
        }
      }
    }
    if (!are_equal(wanting_devices) || !are_equal(wanting_hosts)) return false;
    wanting_devices_ = wanting_devices[0];
    wanting_hosts_ = wanting_hosts[0];
    return std::all_of(held_tiles_.begin(), held_tiles_.end(), [](const HeldTile& tile) { return tile.holders > 0; });
  }

  // All that a device lacks is on its host: what holders send follows from what they do not keep.
  void add_only_host() {
    for (const Device device : map_.hosts[0]) {
      HeldTile& tile = at(held_tiles_, held_.number(device));
      DeviceTraffic& of_device = at(traffic_.devices, device);
      const double kept = held_.shared(device, wanted_, device);
      tile.kept += kept;
      tile.keepers += kept > 0 ? 1 : 0;
      of_device.received = of_device.written - kept;
      of_device.messages = wanted_.count_met(device, held_) - (kept > 0 ? 1 : 0);
    }
    for (const Device device : map_.hosts[0]) {
      const HeldTile& tile = at(held_tiles_, held_.number(device));
      DeviceTraffic& of_device = at(traffic_.devices, device);
      of_device.sent =
          (held_.size(device) * static_cast<double>(wanting_devices_) - tile.kept) / static_cast<double>(tile.holders);
      const std::int64_t sent = held_.count_met(device, wanted_) * wanting_devices_ - tile.keepers;
      of_device.messages = std::max(of_device.messages, divide_up(sent, tile.holders));
    }
  }

  void add_host(std::size_t host) {
    const std::vector<TileMates> held = group_by_tile(held_, map_.hosts[host]);
    for (const TileMates& wanting : group_by_tile(wanted_, map_.hosts[host])) {
      double near = 0;
      std::int64_t near_tiles = 0;
      for (const TileMates& holding : held) {
        const double shared = held_.shared(holding.devices[0], wanted_, wanting.devices[0]);
        if (shared == 0) continue;
        near += shared;
        ++near_tiles;
        add_near(holding, wanting, shared);
      }
      const double far = at(traffic_.devices, wanting.devices[0]).written - near;
      const std::int64_t far_tiles = wanted_.count_met(wanting.devices[0], held_) - near_tiles;
      traffic_.hosts[host].in += far;
      for (const Device device : wanting.devices) add_entering(at(traffic_.devices, device), wanting, far, far_tiles);
    }
  }

  void add_near(const TileMates& holding, const TileMates& wanting, double shared) {
    HeldTile& tile = at(held_tiles_, holding.tile);
    tile.near += shared;
    if (wanting_hosts_ == 1) tile.own += shared;
    tile.met += static_cast<std::int64_t>(wanting.devices.size());
    std::int64_t receivers = 0;
    for (const Device device : wanting.devices) {
      if (held_.number(device) == holding.tile) continue;
      ++receivers;
      at(traffic_.devices, device).received += shared;
      ++at(traffic_.devices, device).messages;
    }
    for (const Device device : holding.devices) {
      DeviceTraffic& of_device = at(traffic_.devices, device);
      of_device.sent += shared * static_cast<double>(receivers) / count_of(holding.devices);
    }
  }

  static void add_entering(DeviceTraffic& device, const TileMates& wanting, double far, std::int64_t far_tiles) {
    const double mates = count_of(wanting.devices);
    device.entered = far / mates;
    device.passed_received = far - device.entered;
    device.passed_sent = device.entered * (mates - 1);
    device.crossing_messages = far_tiles;
    device.passed_messages = far_tiles > 0 ? static_cast<std::int64_t>(wanting.devices.size()) - 1 : 0;
  }

  // What the device sends to other hosts.
  void add_crossing(Device device) {
    const HeldTile& tile = at(held_tiles_, held_.number(device));
    const double size = held_.size(device);
    const double crossing = size * static_cast<double>(wanting_hosts_) - tile.near;
    if (tile.holder == device) {  // once for each tile
      crossing_.add(tile.hosts, crossing);
      if (tile.hosts.size() == 1) at(traffic_.hosts, tile.hosts[0]).only += size - tile.own;
    }
    const std::int64_t sent = held_.count_met(device, wanted_) * wanting_devices_ - tile.met;
    DeviceTraffic& of_device = at(traffic_.devices, device);
    of_device.crossing_messages = std::max(of_device.crossing_messages, most_met_by_share(sent, tile.holders));
  }

  const HostMap& map_;
  const GridTiles held_;
  const GridTiles wanted_;
  std::vector<HeldTile> held_tiles_;
  std::int64_t wanting_devices_ = 0;  // of each tile after the stage
  std::int64_t wanting_hosts_ = 0;
  CrossingShares crossing_;
  StageTraffic traffic_;
};

bool is_grid(const Placement& placement) {
  return !placement.is_listed() && placement.rank() > 0 && product(placement.tile_shape()) > 0;
}

// --- Cells: what tiles before and after the stage share.

class CellTraffic {
 public:
  CellTraffic(const Placement& before, const Placement& after, const HostMap& map)
      : map_(map), held_(held_boxes(before)), wanted_(held_boxes(after)), shares_(map) {
    traffic_.hosts.resize(map.hosts.size());
    traffic_.devices.resize(map.host_of.size());
    const auto array = static_cast<double>(product(before.global_shape()));
    traffic_.are_tiles_apart = elements_of(held_) == array && elements_of(wanted_) == array;
  }

  StageTraffic find() {
    const BoxIndex index(held_);
    for (const HeldBox& wanted : wanted_) {
      for (const Device device : wanted.holders) {
        at(traffic_.devices, device).written += static_cast<double>(volume(wanted.box));
      }
      index.visit_shared(wanted.box, [&](std::size_t held, const Box& shared) {
        add_cell(held_[held].holders, wanted.holders, static_cast<double>(volume(shared)));
      });
    }
    shares_.write(traffic_.hosts);
    count_messages(inside_, &DeviceTraffic::messages);
    count_messages(crossing_, &DeviceTraffic::crossing_messages);
    count_messages(passed_, &DeviceTraffic::passed_messages);
    return std::move(traffic_);
  }

 private:
  using Pairs = std::set<std::pair<Device, Device>>;  // from, to

  static double elements_of(const std::vector<HeldBox>& boxes) {
    double elements = 0;
    for (const HeldBox& held : boxes) elements += static_cast<double>(volume(held.box));
    return elements;
  }

  void add_cell(const std::vector<Device>& holders, const std::vector<Device>& wanting, double size) {
    std::map<std::int64_t, std::vector<Device>> near_holders;  // by host
    std::map<std::int64_t, std::vector<Device>> receivers;
    for (const Device device : holders) near_holders[at(map_.host_of, device)].push_back(device);
    std::vector<std::int64_t> holding_hosts;
    for (const auto& [host, devices] : near_holders) holding_hosts.push_back(host);
    bool is_wanted_elsewhere = false;
    for (const Device device : wanting) {
      const std::int64_t host = at(map_.host_of, device);
      is_wanted_elsewhere = is_wanted_elsewhere || !near_holders.contains(host);
      if (!std::binary_search(holders.begin(), holders.end(), device)) receivers[host].push_back(device);
    }
    if (near_holders.size() == 1 && is_wanted_elsewhere) at(traffic_.hosts, near_holders.begin()->first).only += size;
    for (const auto& [host, devices] : receivers) {
      const auto near = near_holders.find(host);
      if (near != near_holders.end()) {
        add_inside(near->second, devices, size);
      } else {
        at(traffic_.hosts, host).in += size;
        add_crossing(holders, devices, size);
        shares_.add(holding_hosts, size);
      }
    }
  }

  void add_inside(const std::vector<Device>& holders, const std::vector<Device>& receivers, double size) {
    for (std::size_t i = 0; i < receivers.size(); ++i) {
      at(traffic_.devices, receivers[i]).received += size;
      inside_.emplace(holders[i % holders.size()], receivers[i]);
    }
    for (const Device device : holders) {
      at(traffic_.devices, device).sent += size * count_of(receivers) / count_of(holders);
    }
  }

  // To devices of one host.
  void add_crossing(const std::vector<Device>& holders, const std::vector<Device>& receivers, double size) {
    const double part = size / count_of(receivers);
    for (std::size_t i = 0; i < receivers.size(); ++i) {
      DeviceTraffic& device = at(traffic_.devices, receivers[i]);
      device.entered += part;
      device.passed_received += size - part;
      device.passed_sent += part * (count_of(receivers) - 1);
      crossing_.emplace(holders[i % holders.size()], receivers[i]);
      for (const Device other : receivers) {
        if (other != receivers[i]) passed_.emplace(receivers[i], other);
      }
    }
  }

  void count_messages(const Pairs& pairs, std::int64_t DeviceTraffic::*messages) {
    std::vector<std::int64_t> received(traffic_.devices.size());
    std::vector<std::int64_t> sent(traffic_.devices.size());
    for (const auto& [from, to] : pairs) {
      ++at(sent, from);
      ++at(received, to);
    }
    for (std::size_t i = 0; i < traffic_.devices.size(); ++i) {
      traffic_.devices[i].*messages = std::max(received[i], sent[i]);
    }
  }

  const HostMap& map_;
  const std::vector<HeldBox> held_;
  const std::vector<HeldBox> wanted_;
  Pairs inside_;
  Pairs crossing_;
  Pairs passed_;
  CrossingShares shares_;
  StageTraffic traffic_;
};

}  // namespace

StageTraffic find_cell_traffic(const Placement& before, const Placement& after, const HostMap& map) {
  return CellTraffic(before, after, map).find();
}

StageTraffic find_traffic(const Placement& before, const Placement& after, const HostMap& map) {
  if (is_grid(before) && is_grid(after)) {
    if (auto traffic = GridTraffic(before, after, map).find()) return std::move(*traffic);
  }
  return find_cell_traffic(before, after, map);
}

}  // namespace retile
