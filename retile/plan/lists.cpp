#include "retile/plan/lists.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

// The row-major number of a device's tile in a grid that is coarser or equal in every dimension.
std::int64_t coarse_number(const TileTable& table, const Grid& coarse, std::size_t device) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    number = number * coarse[i] + table.tile(device)[i] / (table.grid[i] / coarse[i]);
  }
  return number;
}

// Sorts groups by their smallest member. A plan from elsewhere may have empty groups: they come first.
Groups order_by_smallest(Groups groups) {
  const auto smallest = [](const std::vector<Device>& group) {
    return group.empty() ? INT64_MIN : *std::min_element(group.begin(), group.end());
  };
  std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) { return smallest(a) < smallest(b); });
  return groups;
}

// A device's role when its group exchanges a box: the tile that it brings and the one that it gets, numbered within the
// box.
struct TileEdge {
  std::int64_t box;
  std::int64_t brings;
  std::int64_t gets;
  Device device;
};

bool by_box_and_tile(const TileEdge& a, const TileEdge& b) {
  return std::tie(a.box, a.brings, a.device) < std::tie(b.box, b.brings, b.device);
}

// Takes perfect matchings of a regular bipartite graph, one after the other. Tiles that are brought are on one side,
// tiles that are got on the other, and devices are the edges.
class Matcher {
 public:
  // `edges` are those of one box, sorted by the tile that they bring.
  explicit Matcher(std::span<const TileEdge> edges) : edges_(edges), used_(edges.size()) {
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (i == 0 || edges[i].brings != edges[i - 1].brings) first_.push_back(i);
    }
    first_.push_back(edges.size());
    for (const TileEdge& edge : edges) got_.push_back(edge.gets);
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

  std::size_t got_index(const TileEdge& edge) const {
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

  std::span<const TileEdge> edges_;
  std::vector<std::size_t> first_;  // by tile brought: its first edge; and the end
  std::vector<std::int64_t> got_;   // tiles got, ascending
  std::vector<bool> used_;
  std::vector<std::size_t> matched_;  // by tile got: its edge
  std::vector<bool> visited_;
};

// Calls visit(edges) for the edges of each box, of edges sorted by box.
template <typename Visit>
void for_each_box(std::span<const TileEdge> edges, Visit visit) {
  while (!edges.empty()) {
    const auto in_box = [&](const TileEdge& edge) { return edge.box == edges.front().box; };
    const auto count = static_cast<std::size_t>(std::find_if_not(edges.begin(), edges.end(), in_box) - edges.begin());
    visit(edges.first(count));
    edges = edges.subspan(count);
  }
}

// Adds the groups that exchange one box. Its edges are sorted by the tile that they bring.
void add_groups(std::span<const TileEdge> box, std::size_t tiles_in_box, Groups& groups) {
  if (box.size() == tiles_in_box) {  // no replicas to match
    std::vector<Device>& group = groups.emplace_back(box.size());
    std::transform(box.begin(), box.end(), group.begin(), [](const TileEdge& edge) { return edge.device; });
    return;
  }
  Matcher matcher(box);
  for (std::size_t replica = 0; replica < box.size() / tiles_in_box; ++replica) groups.push_back(matcher.take());
}

// Advances to the next tile of this shape that the box meets, in row-major order. False after the last one.
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

// Lists the devices of a step for an array of rank 0: every device holds its one element, and none communicates.
void list_one_element(StepOperation& operation, std::int64_t device_count) {
  Groups groups;
  std::vector<DevicePair> pairs;
  for (Device device = 0; device < device_count; ++device) {
    groups.push_back({device});
    pairs.push_back({device, device});
  }
  if (auto* gather = std::get_if<GatherStep>(&operation)) gather->groups = groups;
  if (auto* alltoall = std::get_if<AllToAllStep>(&operation)) alltoall->groups = groups;
  if (auto* permute = std::get_if<PermuteStep>(&operation)) permute->pairs = std::move(pairs);
  if (auto* exchange = std::get_if<ExchangeStep>(&operation)) exchange->pieces.emplace();
}

// Clips pieces of a larger array to this one.
void clip_pieces(std::vector<Piece>& pieces, const Shape& global) {
  const Box array{Shape(global.size()), global};
  std::vector<Piece> clipped;
  for (const Piece& piece : pieces) {
    if (auto box = intersect(piece.box, array)) clipped.push_back({piece.from, piece.to, *std::move(box)});
  }
  pieces = std::move(clipped);
}

// Calls visit(list) for the step's list of devices, where its kind has one.
template <typename Operation, typename Visit>
void visit_list(Operation& operation, Visit visit) {
  std::visit(
      [&](auto& step) {
        if constexpr (requires { step.groups; }) visit(step.groups);
        if constexpr (requires { step.pairs; }) visit(step.pairs);
        if constexpr (requires { step.pieces; }) visit(step.pieces);
      },
      operation);
}

}  // namespace

Groups allgather_groups(const TileTable& before, const TileTable& after) {
  std::vector<TileEdge> edges;
  edges.reserve(before.device_count());
  for (std::size_t d = 0; d < before.device_count(); ++d) {
    edges.push_back({after.number(d), before.number(d), 0, static_cast<Device>(d)});
  }
  std::sort(edges.begin(), edges.end(), by_box_and_tile);
  Groups groups;
  for_each_box(edges, [&](std::span<const TileEdge> box) {
    const auto is_replica = [&](const TileEdge& edge) { return edge.brings == box.front().brings; };
    const auto replicas = static_cast<std::size_t>(std::count_if(box.begin(), box.end(), is_replica));
    for (std::size_t r = 0; r < replicas; ++r) {
      std::vector<Device>& group = groups.emplace_back();
      group.reserve(box.size() / replicas);
      for (std::size_t i = r; i < box.size(); i += replicas) group.push_back(box[i].device);
    }
  });
  return order_by_smallest(std::move(groups));
}

Groups alltoall_groups(const TileTable& before, const TileTable& after) {
  const Grid common = common_grid(before.grid, after.grid);
  std::vector<TileEdge> edges;
  edges.reserve(before.device_count());
  for (std::size_t d = 0; d < before.device_count(); ++d) {
    edges.push_back({coarse_number(before, common, d), before.number(d), after.number(d), static_cast<Device>(d)});
  }
  std::sort(edges.begin(), edges.end(), by_box_and_tile);
  std::size_t tiles_in_box = 1;
  for (std::size_t i = 0; i < common.size(); ++i) tiles_in_box *= static_cast<std::size_t>(before.grid[i] / common[i]);
  Groups groups;
  for_each_box(edges, [&](std::span<const TileEdge> box) { add_groups(box, tiles_in_box, groups); });
  return order_by_smallest(std::move(groups));
}

Groups exchange_groups(const std::vector<Piece>& pieces, const Placement& before) {
  const auto devices = static_cast<std::size_t>(before.device_count());
  std::vector<std::size_t> parent = numbers_below(devices);
  const auto root = [&](std::size_t device) {
    while (parent[device] != device) device = parent[device] = parent[parent[device]];
    return device;
  };
  const auto is_there = [&](Device device) { return 0 <= device && device < before.device_count(); };
  for (const Piece& piece : pieces) {
    if (!is_there(piece.from) || !is_there(piece.to)) continue;  // a plan from elsewhere may name others
    parent[root(static_cast<std::size_t>(piece.from))] = root(static_cast<std::size_t>(piece.to));
  }
  std::vector<std::vector<Device>> by_root(devices);
  for (std::size_t device = 0; device < devices; ++device) {
    by_root[root(device)].push_back(static_cast<Device>(device));
  }
  std::erase_if(by_root, [](const std::vector<Device>& group) { return group.empty(); });
  return order_groups(std::move(by_root), before);
}

std::vector<DevicePair> match_tiles(const TileTable& before, const TileTable& after) {
  if (before.grid != after.grid) throw RuntimeError("a permutation keeps the shape of tiles");
  std::map<std::int64_t, std::vector<Device>> holders;  // by tile: devices that hold it and do not keep it
  std::vector<DevicePair> pairs(after.device_count());
  std::vector<Device> seekers;
  for (std::size_t device = after.device_count(); device-- > 0;) {
    const auto number = static_cast<Device>(device);
    if (before.number(device) == after.number(device)) {
      pairs[device] = {number, number};
    } else {
      holders[before.number(device)].push_back(number);
      seekers.push_back(number);
    }
  }
  for (; !seekers.empty(); seekers.pop_back()) {  // both lists are sorted with their smallest at the end
    const Device target = seekers.back();
    std::vector<Device>& available = holders[after.number(static_cast<std::size_t>(target))];
    if (available.empty()) throw RuntimeError("some tiles are wanted by more devices than hold them");
    at(pairs, target) = {available.back(), target};
    available.pop_back();
  }
  return pairs;
}

GridExchange::Side::Side(const Shape& global, TileTable tiles)
    : table(std::move(tiles)),
      extent(tile_shape(global, table.grid)),
      holders(table.device_count()),
      place(table.device_count()) {
  std::int64_t count = 1;
  for (const std::int64_t tiles_along : table.grid) count *= tiles_along;
  first_holder.resize(static_cast<std::size_t>(count) + 1);
  const auto tile = [&](std::size_t device) { return static_cast<std::size_t>(table.number(device)); };
  for (std::size_t device = 0; device < holders.size(); ++device) {
    place[device] = static_cast<std::uint32_t>(first_holder[tile(device) + 1]++);
    most_holders = std::max<std::int64_t>(most_holders, place[device] + 1);
  }
  std::partial_sum(first_holder.begin(), first_holder.end(), first_holder.begin());
  for (std::size_t device = 0; device < holders.size(); ++device) {
    holders[first_holder[tile(device)] + place[device]] = static_cast<Device>(device);
  }
}

std::span<const Device> GridExchange::Side::holders_of(std::int64_t tile) const {
  const std::size_t first = at(first_holder, tile);
  return std::span(holders).subspan(first, first_holder[static_cast<std::size_t>(tile) + 1] - first);
}

Box GridExchange::Side::box_of(Device device) const {
  const std::int32_t* tile = table.tile(static_cast<std::size_t>(device));
  Box box{Shape(extent.size()), Shape(extent.size())};
  for (std::size_t i = 0; i < extent.size(); ++i) {
    box.lo[i] = tile[i] * extent[i];
    box.hi[i] = box.lo[i] + extent[i];
  }
  return box;
}

GridExchange::GridExchange(const Shape& global, const TileTable& before, const TileTable& after)
    : before_(global, before), after_(global, after) {
  for (std::size_t i = 1; i < before_.first_holder.size(); ++i) {
    if (before_.first_holder[i] == before_.first_holder[i - 1]) {
      throw RuntimeError("some tiles are held by no device");
    }
  }
}

// A device's index among those whose tiles after meet a tile before: ordered by these tiles, then by their holders. -1
// where the device's own tile does not meet it.
std::int64_t GridExchange::order_of(Device receiver, const Shape& tile) const {
  const std::int32_t* wanted = after_.table.tile(static_cast<std::size_t>(receiver));
  std::int64_t number = 0;
  for (std::size_t i = 0; i < tile.size(); ++i) {
    const std::int64_t first = tile[i] * before_.extent[i] / after_.extent[i];
    const std::int64_t end = divide_up((tile[i] + 1) * before_.extent[i], after_.extent[i]);
    if (wanted[i] < first || wanted[i] >= end) return -1;
    number = number * (end - first) + wanted[i] - first;
  }
  return number * after_.most_holders + at(after_.place, receiver);
}

// The number of devices that lack the tile and come before the receiver.
std::int64_t GridExchange::turn_of(Device receiver, const Shape& tile) const {
  const std::int64_t order = order_of(receiver, tile);
  std::int64_t turn = order;
  for (const Device holder : before_.holders_of(tile_number(before_.table.grid, tile.data()))) {
    const std::int64_t other = order_of(holder, tile);
    if (other >= 0 && other < order) --turn;
  }
  return turn;
}

void GridExchange::visit_received(Device device, const Visit& visit) const {
  const Box wanted = after_.box_of(device);
  const Shape& extent = before_.extent;
  const std::int64_t own = before_.tile_of(device);
  Shape tile(extent.size());
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = wanted.lo[i] / extent[i];
  Piece piece{0, device, wanted};
  do {
    const std::int64_t number = tile_number(before_.table.grid, tile.data());
    if (number == own) continue;
    const std::span<const Device> holders = before_.holders_of(number);
    const auto count = static_cast<std::int64_t>(holders.size());
    piece.from = holders[count == 1 ? 0 : static_cast<std::size_t>(turn_of(device, tile) % count)];
    for (std::size_t i = 0; i < tile.size(); ++i) {
      piece.box.lo[i] = std::max(wanted.lo[i], tile[i] * extent[i]);
      piece.box.hi[i] = std::min(wanted.hi[i], (tile[i] + 1) * extent[i]);
    }
    visit(piece);
  } while (next_tile(wanted, extent, tile));
}

void GridExchange::visit_sent(Device device, const Visit& visit) const {
  const Box held = before_.box_of(device);
  const Shape& extent = after_.extent;
  const std::int64_t own = before_.tile_of(device);
  const auto count = static_cast<std::int64_t>(before_.holders_of(own).size());
  const std::int64_t mine = at(before_.place, device);
  Shape tile(extent.size());
  for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = held.lo[i] / extent[i];
  Piece piece{device, 0, held};
  std::int64_t first = 0;  // the turn of the first holder of the tile after
  std::int64_t keepers = 0;
  do {
    for (std::size_t i = 0; i < tile.size(); ++i) {
      piece.box.lo[i] = std::max(held.lo[i], tile[i] * extent[i]);
      piece.box.hi[i] = std::min(held.hi[i], (tile[i] + 1) * extent[i]);
    }
    for (const Device receiver : after_.holders_of(tile_number(after_.table.grid, tile.data()))) {
      const std::int64_t order = first + at(after_.place, receiver);
      if (before_.tile_of(receiver) == own) {
        ++keepers;
      } else if ((order - keepers) % count == mine) {
        piece.to = receiver;
        visit(piece);
      }
    }
    first += after_.most_holders;
  } while (next_tile(held, extent, tile));
}

std::vector<Piece> balanced_pieces(const Shape& global, const TileTable& before, const TileTable& after) {
  if (global.empty()) return {};
  std::vector<Piece> pieces;
  pieces.reserve(after.device_count());
  const GridExchange exchange(global, before, after);
  for (std::size_t device = 0; device < after.device_count(); ++device) {
    exchange.visit_received(static_cast<Device>(device), [&](const Piece& piece) { pieces.push_back(piece); });
  }
  return pieces;
}

Groups order_groups(Groups groups, const Placement& before) {
  // A plan from elsewhere may name devices that do not exist: they come first. Devices that hold nothing come last.
  const auto corner = [&](Device device) {
    if (device < 0 || device >= before.device_count()) return Shape();
    return before.size(device) == 0 ? before.global_shape() : before.offset(device);
  };
  for (std::vector<Device>& members : groups) {
    std::sort(members.begin(), members.end());
    std::stable_sort(members.begin(), members.end(), [&](Device a, Device b) { return corner(a) < corner(b); });
  }
  return order_by_smallest(std::move(groups));
}

void list_devices(StepOperation& operation, const Shape& global, const TileTable& before, const TileTable& after) {
  if (is_listed(operation)) return;
  if (auto* gather = std::get_if<GatherStep>(&operation)) gather->groups = allgather_groups(before, after);
  if (auto* alltoall = std::get_if<AllToAllStep>(&operation)) alltoall->groups = alltoall_groups(before, after);
  if (auto* permute = std::get_if<PermuteStep>(&operation)) permute->pairs = match_tiles(before, after);
  if (auto* exchange = std::get_if<ExchangeStep>(&operation)) {
    exchange->pieces = balanced_pieces(global, before, after);
  }
}

void list_devices(Step& step, const Placement& before) {
  if (is_listed(step.operation)) return;
  auto* exchange = std::get_if<ExchangeStep>(&step.operation);
  if (exchange != nullptr && goes_by_boxes(before, step.after)) {
    exchange->pieces = shared_pieces(before, step.after, SIZE_MAX);
    return;
  }
  if (before.rank() == 0) return list_one_element(step.operation, before.device_count());
  list_devices(step.operation, before.grid_extent(), tile_table(before), tile_table(step.after));
  if (exchange != nullptr && !before.is_even()) clip_pieces(*exchange->pieces, before.global_shape());
}

bool is_listed(const StepOperation& operation) {
  bool is_there = true;
  visit_list(operation, [&](const auto& list) { is_there = list.has_value(); });
  return is_there;
}

StepOperation without_lists(StepOperation operation) {
  visit_list(operation, [](auto& list) { list.reset(); });
  return operation;
}

Movement with_lists(Movement movement) {
  for (std::size_t i = 0; i < movement.steps.size(); ++i) list_devices(movement.steps[i], movement.before(i));
  return movement;
}

}  // namespace retile
