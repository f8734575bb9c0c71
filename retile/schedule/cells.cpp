#include "retile/schedule/cells.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "retile/grids/box_index.h"
#include "retile/grids/held_boxes.h"

namespace retile {
namespace {

// Adds the part of the box from element `begin` to `end`; in dimensions before this one, the box has one index.
void add_range(Box box, std::size_t dimension, std::int64_t begin, std::int64_t end, std::vector<Box>& boxes) {
  if (begin == end) return;
  const std::int64_t elements = volume(box);
  if (begin == 0 && end == elements) {
    boxes.push_back(std::move(box));
    return;
  }
  const std::int64_t slab = elements / (box.hi[dimension] - box.lo[dimension]);
  const auto slabs = [&](std::int64_t first, std::int64_t last) {
    Box part = box;
    part.lo[dimension] = box.lo[dimension] + first;
    part.hi[dimension] = box.lo[dimension] + last;
    return part;
  };
  const std::int64_t first = begin / slab;
  const std::int64_t last = end / slab;
  if (first == last)
    return add_range(slabs(first, first + 1), dimension + 1, begin - first * slab, end - first * slab, boxes);
  const std::int64_t whole = first + (begin % slab == 0 ? 0 : 1);
  if (whole > first) add_range(slabs(first, whole), dimension + 1, begin % slab, slab, boxes);
  if (last > whole) boxes.push_back(slabs(whole, last));
  if (end % slab != 0) add_range(slabs(last, last + 1), dimension + 1, 0, end % slab, boxes);
}

// At most so many parts of equal size, along the longest dimension.
std::vector<Box> even_slabs(const Box& box, std::size_t most) {
  if (box.lo.empty()) return {box};
  const std::size_t longest = longest_dimension(box);
  const std::int64_t length = box.hi[longest] - box.lo[longest];
  const std::int64_t count = std::min(length, static_cast<std::int64_t>(most));
  std::vector<Box> slabs;
  for (std::int64_t i = 0; i < count; ++i) {
    Box& slab = slabs.emplace_back(box);
    const auto begin = [&](std::int64_t part) {
      return box.lo[longest] + part * (length / count) + std::min(part, length % count);
    };
    slab.lo[longest] = begin(i);
    slab.hi[longest] = begin(i + 1);
  }
  return slabs;
}

}  // namespace

DeviceSets::Number DeviceSets::add(std::vector<Device> devices) {
  const auto [found, is_new] = numbers_.try_emplace(std::move(devices), static_cast<Number>(sets_.size()));
  if (is_new) sets_.push_back(&found->first);
  return found->second;
}

std::vector<Cell> find_cells(const Placement& source, const Placement& target, DeviceSets& sets) {
  const std::vector<HeldBox> held = held_boxes(source);
  const BoxIndex index(held);
  std::vector<Cell> cells;
  for (const HeldBox& wanted : held_boxes(target)) {
    index.visit_shared(wanted.box, [&](std::size_t box, Box shared) {
      const std::vector<Device>& holders = held[box].holders;
      std::vector<Device> receivers;
      std::vector<Device> keepers;
      std::set_difference(wanted.holders.begin(), wanted.holders.end(), holders.begin(), holders.end(),
                          std::back_inserter(receivers));
      std::set_intersection(wanted.holders.begin(), wanted.holders.end(), holders.begin(), holders.end(),
                            std::back_inserter(keepers));
      cells.push_back(
          {std::move(shared), sets.add(holders), sets.add(std::move(receivers)), sets.add(std::move(keepers))});
    });
  }
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) { return a.box.lo < b.box.lo; });
  return cells;
}

std::vector<Cell> split_by_hosts(const std::vector<Cell>& cells, const std::vector<std::int64_t>& hosts,
                                 DeviceSets& sets) {
  std::vector<Cell> split;
  const DeviceSets::Number nobody = sets.add({});
  const auto host_of = [&](Device device) { return at(hosts, device); };
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    if (cell.keepers != nobody) split.push_back({cell.box, cell.holders, nobody, cell.keepers});
    std::map<std::int64_t, std::vector<Device>> receivers;
    std::map<std::int64_t, std::vector<Device>> holders;
    for (const Device device : sets[cell.receivers]) receivers[host_of(device)].push_back(device);
    for (const Device device : sets[cell.holders]) holders[host_of(device)].push_back(device);
    for (const auto& [host, devices] : receivers) {
      const auto near = holders.find(host);
      if (near != holders.end()) {
        split.push_back({cell.box, sets.add(near->second), sets.add(devices), nobody});
        continue;
      }
      const std::vector<Box> parts = even_slabs(cell.box, devices.size());
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const Device entry = devices[(part + i) % devices.size()];
        std::vector<Device> others = devices;
        std::erase(others, entry);
        split.push_back({parts[part], cell.holders, sets.add({entry}), nobody});
        if (!others.empty())
          split.push_back({parts[part], sets.add({entry}), sets.add(others), nobody, StreamPhase::passed_on});
      }
    }
  }
  return split;
}

std::vector<Box> boxes_of_range(const Box& box, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  add_range(box, 0, begin, end, boxes);
  return boxes;
}

}  // namespace retile
