// Orders of devices, written as digits of their numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "retile/types/mesh.h"

namespace retile::interchange {

// A digit of device numbers: devices whose digit differs by one are `stride` apart.
struct Digit {
  std::int64_t size = 1;
  std::int64_t stride = 1;

  bool operator==(const Digit&) const = default;
};

// Major to minor; neighbours that are one digit are joined, and those of size 1 left out.
std::vector<Digit> joined(const std::vector<Digit>& digits);

// Takes digits that count `count` off the front; nothing where there are none.
std::optional<std::vector<Digit>> take(std::vector<Digit>& digits, std::int64_t count);

// The digits that number the devices in this order, major to minor; nothing where they are numbered otherwise.
std::optional<std::vector<Digit>> find_digits(const std::vector<Device>& devices);

// The devices in the order of digits, which come major to minor.
std::vector<Device> listed(const std::vector<Digit>& digits);

}  // namespace retile::interchange
