// XLA's shardings by tiles, as written in their text.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/scanner.h"
#include "retile/interchange/device_digits.h"
#include "retile/types/distributed_type.h"

namespace retile::interchange {

// The order in which a text lists devices.
struct DeviceOrder {
  std::int64_t count = 1;
  std::vector<Digit> digits = {};    // major to minor
  std::vector<Device> devices = {};  // in place of digits, where no digits number them
};

// Scan [4,2]T(1,0), the numbers 0, 1, 2, … in this shape, transposed; or the devices one by one, 0,2,1,3. Throw
// InputError.
DeviceOrder scan_shaped_order(Scanner& scanner);
DeviceOrder scan_listed_order(Scanner& scanner);

enum class Subgroup { replicated, unreduced };

struct Sharding {
  enum class Kind { tiled, replicated, unreduced, maximal };

  Kind kind = Kind::tiled;
  SourceRange place;  // of the whole sharding
  Shape counts;       // numbers of tiles by dimension, then of devices by subgroup
  SourceRange counts_place;
  std::vector<Subgroup> subgroups;
  Device device = 0;  // if it is maximal
  DeviceOrder order;  // otherwise
  std::size_t rank() const { return counts.size() - subgroups.size(); }
};

// Scans a text that is one sharding. Throws InputError.
Sharding scan_sharding(const SourceText& text);

}  // namespace retile::interchange
