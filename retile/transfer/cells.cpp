#include "retile/transfer/cells.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "retile/grids/box_index.h"

namespace retile::transfer {
namespace {

struct HeldBox {
  Box box;
  std::vector<Device> holders;
};

std::vector<HeldBox> held_boxes(const Placement& placement) {
  std::map<std::pair<Shape, Shape>, std::size_t> numbers;
  std::vector<HeldBox> boxes;
  for (Device device = 0; device < placement.device_count(); ++device) {
    for (Part& part : placement.parts(device)) {
      const auto [found, is_new] = numbers.try_emplace({part.box.lo, part.box.hi}, boxes.size());
      if (is_new) boxes.push_back({std::move(part.box), {}});
      boxes[found->second].holders.push_back(device);
    }
  }
  return boxes;
}

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

}  // namespace

DeviceSets::Number DeviceSets::add(std::vector<Device> devices) {
  const auto [found, is_new] = numbers_.try_emplace(std::move(devices), static_cast<Number>(sets_.size()));
  if (is_new) sets_.push_back(&found->first);
  return found->second;
}

std::vector<Cell> find_cells(const Placement& source, const Placement& target, DeviceSets& sets) {
  const std::vector<HeldBox> held = held_boxes(source);
  std::vector<Box> boxes;
  boxes.reserve(held.size());
  for (const HeldBox& one : held) boxes.push_back(one.box);
  const BoxIndex index(std::move(boxes));
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

std::vector<Box> boxes_of_range(const Box& box, std::int64_t begin, std::int64_t end) {
  std::vector<Box> boxes;
  add_range(box, 0, begin, end, boxes);
  return boxes;
}

}  // namespace retile::transfer
