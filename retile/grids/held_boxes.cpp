#include "retile/grids/held_boxes.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace retile {

std::vector<HeldBox> held_boxes(const Placement& placement) {
  std::vector<HeldBox> boxes;
  for (Device device = 0; device < placement.device_count(); ++device) {
    for (Part& part : placement.parts(device)) boxes.push_back({std::move(part.box), {device}});
  }
  std::stable_sort(boxes.begin(), boxes.end(), [](const HeldBox& a, const HeldBox& b) {
    return std::tie(a.box.lo, a.box.hi) < std::tie(b.box.lo, b.box.hi);
  });
  std::size_t count = 0;  // of different ones
  for (HeldBox& held : boxes) {
    if (count > 0 && boxes[count - 1].box == held.box) {
      boxes[count - 1].holders.push_back(held.holders.front());
    } else if (&boxes[count++] != &held) {
      boxes[count - 1] = std::move(held);
    }
  }
  boxes.resize(count);
  return boxes;
}

}  // namespace retile
