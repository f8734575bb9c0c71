#include "retile/plan/groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

// Row-major number of a device's tile in a grid that is coarser or equal in every dimension.
std::int64_t coarse_number(const GridTable& table, const Shape& coarse, std::size_t device) {
  const std::size_t rank = coarse.size();
  std::int64_t number = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    number = number * coarse[i] + table.tiles[device * rank + i] / (table.grid[i] / coarse[i]);
  }
  return number;
}

// The grid whose tiles are unions of tiles of both, where one of the two divides the other in every dimension.
Shape common_grid(const Shape& a, const Shape& b) {
  Shape grid(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) grid[i] = std::gcd(a[i], b[i]);
  return grid;
}

std::vector<std::vector<Device>> order_by_smallest(std::vector<std::vector<Device>> groups) {
  const auto smallest = [](const std::vector<Device>& group) { return *std::min_element(group.begin(), group.end()); };
  std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return smallest(a) < smallest(b); });
  return groups;
}

// A device's place in the exchange of its group's box: the tile it brings and the one it gets, numbered
// within the box.
struct Edge {
  std::int64_t box;
  std::int64_t brings;
  std::int64_t gets;
  Device device;
};

bool by_box_and_tile(const Edge& a, const Edge& b) {
  return std::tie(a.box, a.brings, a.device) < std::tie(b.box, b.brings, b.device);
}

// Perfect matchings of a regular bipartite graph, one after the other: tiles that are brought on one
// side, tiles that are got on the other, devices as edges.
class Matcher {
 public:
  // The edges of one box, sorted by what they bring.
  explicit Matcher(std::span<const Edge> edges) : edges_(edges), used_(edges.size()) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (i == 0 || edges[i].brings != edges[i - 1].brings) first_.push_back(i);
    }
    first_.push_back(edges.size());
    for (const Edge& edge : edges) got_.push_back(edge.gets);
    std::sort(got_.begin(), got_.end());
    got_.erase(std::unique(got_.begin(), got_.end()), got_.end());
    if (got_.size() != tile_count()) fail();
  }

  std::size_t tile_count() const { return first_.size() - 1; }

  // Takes the next matching: one device per tile brought.
  std::vector<Device> take() {
    matched_.assign(got_.size(), none);
    for (std::size_t brings = 0; brings < tile_count(); ++brings) {
      visited_.assign(got_.size(), false);
      if (!match(brings)) fail();
    }
    std::vector<std::pair<std::int64_t, Device>> members;
    for (const std::size_t edge : matched_) {
      used_[edge] = true;
      members.emplace_back(edges_[edge].brings, edges_[edge].device);
    }
    std::sort(members.begin(), members.end());
    std::vector<Device> group;
    group.reserve(members.size());
    for (const auto& [brings, device] : members) group.push_back(device);
    return group;
  }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  [[noreturn]] static void fail() {
    throw RuntimeError("no groups of devices bring each other the tiles that they get");
  }

  std::size_t got_index(const Edge& edge) const {
    return static_cast<std::size_t>(std::lower_bound(got_.begin(), got_.end(), edge.gets) - got_.begin());
  }

  // Finds an augmenting path for the tile.
  bool match(std::size_t brings) {
    for (std::size_t edge = first_[brings]; edge < first_[brings + 1]; ++edge) {
      if (used_[edge]) continue;
      const std::size_t gets = got_index(edges_[edge]);
      if (visited_[gets]) continue;
      visited_[gets] = true;
      if (matched_[gets] == none || match(brings_index(matched_[gets]))) {
        matched_[gets] = edge;
        return true;
      }
    }
    return false;
  }

  std::size_t brings_index(std::size_t edge) const {
    return static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), edge) - first_.begin()) - 1;
  }

  std::span<const Edge> edges_;
  std::vector<std::size_t> first_;  // first edge of each tile brought, and the end
  std::vector<std::int64_t> got_;   // tiles got, ascending
  std::vector<bool> used_;
  std::vector<std::size_t> matched_;  // edge by tile got
  std::vector<bool> visited_;
};

// The groups that exchange one box, whose edges are sorted by what they bring.
void add_groups(std::span<const Edge> box, std::size_t tiles_in_box, std::vector<std::vector<Device>>& groups) {
  if (box.size() == tiles_in_box) {  // no replicas to match
    std::vector<Device>& group = groups.emplace_back(box.size());
    std::transform(box.begin(), box.end(), group.begin(), [](const Edge& edge) { return edge.device; });
    return;
  }
  Matcher matcher(box);
  for (std::size_t replica = 0; replica < box.size() / tiles_in_box; ++replica) groups.push_back(matcher.take());
}

// The devices that hold each tile of a grid. A device holds one tile, so asking a tile's holders in turn
// balances all senders.
class Holders {
 public:
  explicit Holders(const GridTable& held) : devices_(static_cast<std::size_t>(held.device_count())) {
    std::vector<std::size_t> numbers(devices_.size());
    std::int64_t tiles = 1;
    for (const std::int64_t count : held.grid) tiles *= count;
    first_.resize(static_cast<std::size_t>(tiles) + 1);
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      numbers[device] = static_cast<std::size_t>(coarse_number(held, held.grid, device));
      ++first_[numbers[device] + 1];
    }
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    next_.assign(first_.begin(), first_.end() - 1);
    for (std::size_t device = 0; device < devices_.size(); ++device) {
      devices_[next_[numbers[device]]++] = static_cast<Device>(device);
    }
    next_.assign(first_.begin(), first_.end() - 1);
  }

  Device next(const Shape& grid, const Shape& tile) {
    std::size_t number = 0;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      number = number * static_cast<std::size_t>(grid[i]) + static_cast<std::size_t>(tile[i]);
    }
    if (first_[number] == first_[number + 1]) throw RuntimeError("some tiles are held by no device");
    if (next_[number] == first_[number + 1]) next_[number] = first_[number];
    return devices_[next_[number]++];
  }

 private:
  std::vector<Device> devices_;     // by tile
  std::vector<std::size_t> first_;  // of each tile in devices_, and the end
  std::vector<std::size_t> next_;
};

// Goes to the next tile of this shape that the box meets, in row-major order. False after the last one.
bool next_tile(const Box& box, const Shape& local, Shape& tile) {
  for (std::size_t i = tile.size(); i-- > 0;) {
    if ((tile[i] + 1) * local[i] < box.hi[i]) {
      ++tile[i];
      return true;
    }
    tile[i] = box.lo[i] / local[i];
  }
  return false;
}

}  // namespace

GridTable grid_table(const Placement& placement) {
  GridTable table;
  const std::size_t rank = placement.global_shape().size();
  table.grid.resize(rank);
  for (std::size_t i = 0; i < rank; ++i) table.grid[i] = placement.global_shape()[i] / placement.local_shape()[i];
  table.tiles.resize(static_cast<std::size_t>(placement.device_count()) * rank);
  Shape corner(rank);
  for (Device device = 0; device < placement.device_count(); ++device) {
    placement.offset(device, corner);
    for (std::size_t i = 0; i < rank; ++i) {
      table.tiles[static_cast<std::size_t>(device) * rank + i] =
          static_cast<std::int32_t>(corner[i] / placement.local_shape()[i]);
    }
  }
  return table;
}

std::vector<std::vector<Device>> allgather_groups(const GridTable& before, const GridTable& after) {
  std::vector<Edge> edges;
  edges.reserve(static_cast<std::size_t>(before.device_count()));
  for (Device device = 0; device < before.device_count(); ++device) {
    const auto d = static_cast<std::size_t>(device);
    edges.push_back({coarse_number(after, after.grid, d), coarse_number(before, before.grid, d), 0, device});
  }
  std::sort(edges.begin(), edges.end(), by_box_and_tile);
  std::vector<std::vector<Device>> groups;
  for (std::size_t begin = 0; begin < edges.size();) {
    std::size_t replicas = 0;
    while (begin + replicas < edges.size() && edges[begin + replicas].box == edges[begin].box &&
           edges[begin + replicas].brings == edges[begin].brings) {
      ++replicas;
    }
    std::size_t end = begin;
    while (end < edges.size() && edges[end].box == edges[begin].box) ++end;
    for (std::size_t r = 0; r < replicas; ++r) {
      std::vector<Device> group;
      group.reserve((end - begin) / replicas);
      for (std::size_t i = begin + r; i < end; i += replicas) group.push_back(edges[i].device);
      groups.push_back(std::move(group));
    }
    begin = end;
  }
  return order_by_smallest(std::move(groups));
}

std::vector<std::vector<Device>> alltoall_groups(const GridTable& before, const GridTable& after) {
  const Shape common = common_grid(before.grid, after.grid);
  std::vector<Edge> edges;
  edges.reserve(static_cast<std::size_t>(before.device_count()));
  for (Device device = 0; device < before.device_count(); ++device) {
    const auto d = static_cast<std::size_t>(device);
    edges.push_back({coarse_number(before, common, d), coarse_number(before, before.grid, d),
                     coarse_number(after, after.grid, d), device});
  }
  std::sort(edges.begin(), edges.end(), by_box_and_tile);
  std::size_t tiles_in_box = 1;
  for (std::size_t i = 0; i < common.size(); ++i) tiles_in_box *= static_cast<std::size_t>(before.grid[i] / common[i]);
  std::vector<std::vector<Device>> groups;
  for (std::size_t begin = 0; begin < edges.size();) {
    std::size_t end = begin;
    while (end < edges.size() && edges[end].box == edges[begin].box) ++end;
    add_groups(std::span<const Edge>(edges.data() + begin, end - begin), tiles_in_box, groups);
    begin = end;
  }
  return order_by_smallest(std::move(groups));
}

std::vector<std::vector<Device>> exchange_groups(const std::vector<Transfer>& transfers, const GridTable& before) {
  const auto devices = static_cast<std::size_t>(before.device_count());
  std::vector<std::size_t> parent(devices);
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t device) {
    while (parent[device] != device) device = parent[device] = parent[parent[device]];
    return device;
  };
  // The root of a set is its smallest member.
  for (const Transfer& transfer : transfers) {
    const std::size_t a = root(static_cast<std::size_t>(transfer.from));
    const std::size_t b = root(static_cast<std::size_t>(transfer.to));
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::vector<Edge> members(devices);
  for (std::size_t device = 0; device < devices; ++device) {
    members[device] = {static_cast<std::int64_t>(root(device)), coarse_number(before, before.grid, device), 0,
                       static_cast<Device>(device)};
  }
  std::sort(members.begin(), members.end(), by_box_and_tile);
  std::vector<std::vector<Device>> groups;
  for (std::size_t begin = 0; begin < devices;) {
    std::size_t end = begin;
    while (end < devices && members[end].box == members[begin].box) ++end;
    std::vector<Device>& group = groups.emplace_back(end - begin);
    for (std::size_t i = begin; i < end; ++i) group[i - begin] = members[i].device;
    begin = end;
  }
  return groups;
}

std::vector<DevicePair> match_tiles(const Placement& before, const Placement& after) {
  std::map<Shape, std::vector<Device>> holders;  // devices that do not keep their tile
  std::vector<DevicePair> pairs(static_cast<std::size_t>(after.device_count()));
  std::vector<Device> seekers;
  for (Device device = after.device_count() - 1; device >= 0; --device) {
    if (before.offset(device) == after.offset(device)) {
      pairs[static_cast<std::size_t>(device)] = {device, device};
    } else {
      holders[before.offset(device)].push_back(device);
      seekers.push_back(device);
    }
  }
  for (; !seekers.empty(); seekers.pop_back()) {  // both lists ascend from their ends
    const Device target = seekers.back();
    std::vector<Device>& available = holders[after.offset(target)];
    if (available.empty()) throw RuntimeError("some tiles are wanted by more devices than hold them");
    pairs[static_cast<std::size_t>(target)] = {available.back(), target};
    available.pop_back();
  }
  return pairs;
}

std::vector<Transfer> balanced_transfers(const Shape& global, const GridTable& before, const GridTable& after) {
  const std::size_t rank = global.size();
  if (rank == 0) return {};
  Shape local(rank);  // before
  for (std::size_t i = 0; i < rank; ++i) local[i] = global[i] / before.grid[i];
  Holders holders(before);
  std::vector<Transfer> transfers;
  transfers.reserve(static_cast<std::size_t>(after.device_count()));
  Box wanted{Shape(rank), Shape(rank)};
  Shape tile(rank);
  for (Device device = 0; device < after.device_count(); ++device) {
    const std::size_t row = static_cast<std::size_t>(device) * rank;
    for (std::size_t i = 0; i < rank; ++i) {
      const std::int64_t extent = global[i] / after.grid[i];
      wanted.lo[i] = after.tiles[row + i] * extent;
      wanted.hi[i] = wanted.lo[i] + extent;
      tile[i] = wanted.lo[i] / local[i];
    }
    do {
      if (std::equal(tile.begin(), tile.end(), before.tiles.begin() + static_cast<std::ptrdiff_t>(row))) continue;
      Transfer& transfer = transfers.emplace_back(Transfer{holders.next(before.grid, tile), device, wanted});
      for (std::size_t i = 0; i < rank; ++i) {
        transfer.box.lo[i] = std::max(wanted.lo[i], tile[i] * local[i]);
        transfer.box.hi[i] = std::min(wanted.hi[i], (tile[i] + 1) * local[i]);
      }
    } while (next_tile(wanted, local, tile));
  }
  return transfers;
}

bool has_symbolic_steps(const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.symbolic; });
}

void list_devices(Step& step, const Placement& before) {
  if (step.op == StepOp::allgather)
    step.groups = DeviceGroups(allgather_groups(grid_table(before), grid_table(step.after)));
  if (step.op == StepOp::alltoall)
    step.groups = DeviceGroups(alltoall_groups(grid_table(before), grid_table(step.after)));
  if (step.op == StepOp::allpermute) step.pairs = match_tiles(before, step.after);
  if (step.op == StepOp::exchange) {
    const GridTable held = grid_table(before);
    step.transfers = balanced_transfers(before.global_shape(), held, grid_table(step.after));
    step.groups = DeviceGroups(exchange_groups(step.transfers, held));
  }
  step.symbolic = false;
}

Movement with_lists(Movement movement) {
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    if (movement.steps[i].symbolic) list_devices(movement.steps[i], movement.before(i));
  }
  return movement;
}

Plan with_lists(Plan plan) {
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (plan.steps[i].symbolic) list_devices(plan.steps[i], plan.before(i));
  }
  return plan;
}

}  // namespace retile
