// Orders of devices, written as digits of their numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "retile/types/mesh.h"

namespace retile::interchange {

// A digit of device numbers. Devices whose digits differ by one are `stride` apart.
struct Digit {
  std::int64_t size = 1;
  std::int64_t stride = 1;

  bool operator==(const Digit&) const = default;
};

// The digits, major to minor, with neighbours that form one digit joined, and without those of size 1.
std::vector<Digit> joined(const std::vector<Digit>& digits);

// Takes leading digits that together count `count`; nothing where there are none.
std::optional<std::vector<Digit>> take(std::vector<Digit>& digits, std::int64_t count);

// The digits that number the devices in this order, major to minor; nothing where no digits do.
std::optional<std::vector<Digit>> find_digits(const std::vector<Device>& devices);

// The devices in the order of these digits, major to minor.
std::vector<Device> listed(const std::vector<Digit>& digits);

}  // namespace retile::interchange
