// XLA's shardings by tiles, as their text has them.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/scanner.h"
#include "retile/interchange/device_digits.h"
#include "retile/types/distributed_type.h"

namespace retile::interchange {

// In which order a text names devices.
struct DeviceOrder {
  std::int64_t count = 1;
  std::vector<Digit> digits = {};    // major to minor
  std::vector<Device> devices = {};  // instead, where no digits number them
};

// [4,2]T(1,0): 0, 1, 2, … in this shape, transposed; or the devices one by one: 0,2,1,3. Throw InputError.
DeviceOrder scan_shaped_order(Scanner& scanner);
DeviceOrder scan_listed_order(Scanner& scanner);

enum class Subgroup { replicated, unreduced };

struct Sharding {
  enum class Kind { tiled, replicated, unreduced, maximal };

  Kind kind = Kind::tiled;
  SourceRange place;  // of all of it
  Shape counts;       // tiles of each dimension, then devices of each subgroup
  SourceRange counts_place;
  std::vector<Subgroup> subgroups;
  Device device = 0;  // maximal
  DeviceOrder order;  // all others
  std::size_t rank() const { return counts.size() - subgroups.size(); }
};

// The whole text is one. Throws InputError.
Sharding scan_sharding(const SourceText& text);

}  // namespace retile::interchange
