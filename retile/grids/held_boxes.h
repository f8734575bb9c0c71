// The boxes of a placement and the devices that hold them.
#pragma once

#include <vector>

#include "retile/types/box.h"
#include "retile/types/placement.h"

namespace retile {

struct HeldBox {
  Box box;
  std::vector<Device> holders;  // ascending

  bool operator==(const HeldBox&) const = default;
};

// Different ones, in the order of their corners.
std::vector<HeldBox> held_boxes(const Placement& placement);

}  // namespace retile
