#include "retile/plan/rounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace retile {
namespace {

struct Edge {
  Device sender = 0;
  Device receiver = 0;
  Shape corner;  // of the cell, in the array
};

// The corners of the cells that make up a box, row-major.
std::vector<Shape> cells_of(const Shape& corner, const Shape& extent, const Shape& cell) {
  std::vector<Shape> cells{corner};
  for (std::size_t dimension = corner.size(); dimension-- > 0;) {
    std::vector<Shape> more;
    for (std::int64_t at = 0; at < extent[dimension]; at += cell[dimension]) {
      for (Shape one : cells) {
        one[dimension] += at;
        more.push_back(std::move(one));
      }
    }
    cells = std::move(more);
  }
  return cells;
}

Shape difference(const Shape& a, const Shape& b) {
  Shape result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), std::minus<>());
  return result;
}

// The tiles of one side, which are equally large and lie side by side.
struct Tiles {
  Shape shape;
  std::vector<std::optional<Shape>> corners;     // by device; nothing where it holds no tile
  std::map<Shape, std::vector<Device>> holders;  // by corner

  // The corner of the tile in which a cell lies.
  Shape around(Shape cell) const {
    for (std::size_t i = 0; i < cell.size(); ++i) cell[i] -= cell[i] % shape[i];
    return cell;
  }
  // Whether every device holds a tile, and every tile has equally many holders.
  bool are_balanced() const {
    const auto is_there = [](const std::optional<Shape>& corner) { return corner.has_value(); };
    const auto is_like_first = [&](const auto& tile) { return tile.second.size() == holders.begin()->second.size(); };
    return std::all_of(corners.begin(), corners.end(), is_there) &&
           std::all_of(holders.begin(), holders.end(), is_like_first);
  }
};

std::optional<Tiles> find_tiles(const Placement& placement) {
  Tiles tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const std::vector<Part> parts = placement.parts(device);
    if (parts.empty()) {
      tiles.corners.emplace_back();
      continue;
    }
    if (parts.size() > 1 || !is_packed(parts.front())) return std::nullopt;
    const Box& box = parts.front().box;
    const Shape shape = extent_of(box);
    if (tiles.holders.empty()) tiles.shape = shape;
    if (shape != tiles.shape) return std::nullopt;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (box.lo[i] % shape[i] != 0) return std::nullopt;
    }
    tiles.corners.emplace_back(box.lo);
    tiles.holders[box.lo].push_back(device);
  }
  return tiles.holders.empty() ? std::nullopt : std::optional(tiles);
}

Shape common_cell(const Tiles& before, const Tiles& after) {
  Shape cell;
  for (std::size_t i = 0; i < before.shape.size(); ++i) cell.push_back(std::gcd(before.shape[i], after.shape[i]));
  return cell;
}

// Chooses the sender of every cell. A device's own cells come first, then holders that have sent less than their share:
// a device sends as many cells as it receives. Holders of a tile may send any of its cells, so one with a share left
// always exists.
std::vector<std::vector<Edge>> choose_senders(const Tiles& before, const Tiles& after, const Shape& cell) {
  std::vector<std::vector<Edge>> edges(after.corners.size());  // by receiver; own cells first
  std::vector<std::size_t> sent(edges.size());
  std::map<Shape, std::vector<Edge>> wanted;  // by tile
  std::size_t cells = 0;                      // per device
  for (std::size_t device = 0; device < edges.size(); ++device) {
    const std::vector<Shape> corners = cells_of(*after.corners[device], after.shape, cell);
    cells = corners.size();
    for (const Shape& corner : corners) {
      const Shape from = before.around(corner);
      const auto receiver = static_cast<Device>(device);
      if (from == before.corners[device]) {
        edges[device].push_back({receiver, receiver, corner});
        ++sent[device];
      } else {
        wanted[from].push_back({-1, receiver, corner});
      }
    }
  }
  for (auto& [from, list] : wanted) {
    const std::vector<Device>& senders = before.holders.at(from);
    std::size_t next = 0;
    for (Edge& edge : list) {
      while (sent[static_cast<std::size_t>(senders[next])] == cells) ++next;
      edge.sender = senders[next];
      ++sent[static_cast<std::size_t>(edge.sender)];
      edges[static_cast<std::size_t>(edge.receiver)].push_back(std::move(edge));
    }
  }
  return edges;
}

// Colours the edges of a bipartite multigraph in which no device sends or receives more than `degree` of them, so that
// no device has two edges of one colour on a side (König). Each edge takes a colour that is free at its sender. If that
// is taken at its receiver, two colours are swapped along the path that they form from there. Returns edges by colour
// and receiver.
std::vector<std::vector<const Edge*>> colour(const std::vector<const Edge*>& edges, std::size_t devices,
                                             std::size_t degree) {
  using Side = std::vector<std::vector<const Edge*>>;  // by colour and device
  Side by_sender(degree, std::vector<const Edge*>(devices));
  Side by_receiver = by_sender;
  const auto first_free = [&](const Side& side, Device device) {
    std::size_t free = 0;
    while (side[free][static_cast<std::size_t>(device)] != nullptr) ++free;
    return free;
  };
  for (const Edge* edge : edges) {
    const std::size_t at_sender = first_free(by_sender, edge->sender);
    const std::size_t at_receiver = first_free(by_receiver, edge->receiver);
    if (at_sender != at_receiver) {
      std::vector<const Edge*> path;  // its edges alternate between the two colours
      Device device = edge->receiver;
      bool is_receiver = true;
      std::size_t wanted = at_sender;
      while (const Edge* next = (is_receiver ? by_receiver : by_sender)[wanted][static_cast<std::size_t>(device)]) {
        path.push_back(next);
        device = is_receiver ? next->sender : next->receiver;
        is_receiver = !is_receiver;
        wanted = wanted == at_sender ? at_receiver : at_sender;
      }
      const auto set = [&](std::size_t position, bool swapped, bool present) {
        const Edge* one = path[position];
        const std::size_t chosen = (position % 2 == 0) != swapped ? at_sender : at_receiver;
        by_sender[chosen][static_cast<std::size_t>(one->sender)] = present ? one : nullptr;
        by_receiver[chosen][static_cast<std::size_t>(one->receiver)] = present ? one : nullptr;
      };
      for (std::size_t i = 0; i < path.size(); ++i) set(i, false, false);
      for (std::size_t i = 0; i < path.size(); ++i) set(i, true, true);
    }
    by_sender[at_sender][static_cast<std::size_t>(edge->sender)] = edge;
    by_receiver[at_sender][static_cast<std::size_t>(edge->receiver)] = edge;
  }
  return by_receiver;
}

// The round of these edges, which are null for devices that receive nothing.
Round round_of(const std::vector<const Edge*>& by_receiver, const Tiles& before, const Tiles& after) {
  const std::vector<Shape> zeros(by_receiver.size(), Shape(before.shape.size()));
  Round round{std::vector<Device>(by_receiver.size(), nobody), zeros, zeros};
  for (const Edge* edge : by_receiver) {
    if (edge == nullptr) continue;
    const auto sender = static_cast<std::size_t>(edge->sender);
    const auto receiver = static_cast<std::size_t>(edge->receiver);
    round.senders[receiver] = edge->sender;
    round.taken_from[sender] = difference(edge->corner, *before.corners[sender]);
    round.written_to[receiver] = difference(edge->corner, *after.corners[receiver]);
  }
  return round;
}

// The senders of cells: the holders of a tile send its cells in turn. A device holds only one tile, so what it sends
// does not depend on other tiles, and the busiest sender sends as few as possible.
std::vector<Edge> share_cells(const std::map<Shape, std::vector<Edge>>& wanted, const Tiles& before) {
  std::vector<Edge> edges;
  for (const auto& [tile, list] : wanted) {
    const std::vector<Device>& holders = before.holders.at(tile);
    for (std::size_t i = 0; i < list.size(); ++i)
      edges.push_back({holders[i % holders.size()], list[i].receiver, list[i].corner});
  }
  return edges;
}

std::size_t most_of_a_device(const std::vector<Edge>& edges, std::size_t devices) {
  std::vector<std::size_t> sent(devices);
  std::vector<std::size_t> received(devices);
  std::size_t most = 0;
  for (const Edge& edge : edges) {
    most = std::max(
        {most, ++sent[static_cast<std::size_t>(edge.sender)], ++received[static_cast<std::size_t>(edge.receiver)]});
  }
  return most;
}

}  // namespace

std::optional<Rounds> find_rounds(const Placement& placement_before, const Placement& placement_after) {
  const std::optional<Tiles> before = find_tiles(placement_before);
  const std::optional<Tiles> after = find_tiles(placement_after);
  if (!before || !after || !before->are_balanced() || !after->are_balanced()) return std::nullopt;
  Rounds rounds;
  rounds.cell = common_cell(*before, *after);
  const std::vector<std::vector<Edge>> edges = choose_senders(*before, *after, rounds.cell);
  std::size_t own = edges.front().size();  // cells that every device has
  for (const std::vector<Edge>& list : edges) {
    const auto is_own = [](const Edge& edge) { return edge.sender == edge.receiver; };
    own = std::min(own, static_cast<std::size_t>(std::count_if(list.begin(), list.end(), is_own)));
  }
  std::vector<const Edge*> exchanged;
  for (std::size_t position = 0; position < edges.front().size(); ++position) {
    std::vector<const Edge*> kept;
    for (const std::vector<Edge>& list : edges) (position < own ? kept : exchanged).push_back(&list[position]);
    if (position < own) rounds.own.push_back(round_of(kept, *before, *after));
  }
  for (const auto& by_receiver : colour(exchanged, edges.size(), edges.front().size() - own)) {
    rounds.exchanged.push_back(round_of(by_receiver, *before, *after));
  }
  return rounds;
}

std::optional<Rounds> find_partial_rounds(const Placement& placement_before, const Placement& placement_after) {
  const std::optional<Tiles> before = find_tiles(placement_before);
  const std::optional<Tiles> after = find_tiles(placement_after);
  if (!before || !after) return std::nullopt;
  Rounds rounds;
  rounds.cell = common_cell(*before, *after);
  const std::size_t devices = after->corners.size();
  std::vector<std::vector<Edge>> kept(devices);
  std::map<Shape, std::vector<Edge>> wanted;  // by tile
  for (std::size_t device = 0; device < devices; ++device) {
    if (!after->corners[device]) continue;
    const auto receiver = static_cast<Device>(device);
    for (const Shape& corner : cells_of(*after->corners[device], after->shape, rounds.cell)) {
      const Shape from = before->around(corner);
      const bool is_own = before->corners[device] == from;
      (is_own ? kept[device] : wanted[from]).push_back({receiver, receiver, corner});
    }
  }
  const std::size_t most_kept = std::max_element(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
                                  return a.size() < b.size();
                                })->size();
  for (std::size_t position = 0; position < most_kept; ++position) {
    std::vector<const Edge*> by_receiver;
    for (const std::vector<Edge>& list : kept)
      by_receiver.push_back(position < list.size() ? &list[position] : nullptr);
    rounds.own.push_back(round_of(by_receiver, *before, *after));
  }
  const std::vector<Edge> sent = share_cells(wanted, *before);
  std::vector<const Edge*> edges;
  for (const Edge& edge : sent) edges.push_back(&edge);
  for (const auto& by_receiver : colour(edges, devices, most_of_a_device(sent, devices))) {
    rounds.exchanged.push_back(round_of(by_receiver, *before, *after));
  }
  return rounds;
}

}  // namespace retile
