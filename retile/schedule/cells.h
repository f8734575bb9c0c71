// Cells: what some devices hold of an array and some want, each cell as a whole.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/placement.h"

namespace retile {

// The tiles that pieces are taken from: source tiles, or target tiles whose elements came into a host and are passed
// on.
enum class StreamPhase { from_sources, passed_on };

// Lists of devices, ascending, each kept once.
class DeviceSets {
 public:
  using Number = std::uint32_t;

  Number add(std::vector<Device> devices);
  const std::vector<Device>& operator[](Number number) const { return *sets_[number]; }
  std::size_t size() const { return sets_.size(); }

 private:
  std::map<std::vector<Device>, Number> numbers_;
  std::vector<const std::vector<Device>*> sets_;
};

// A box of the common refinement of source and target: a device holds all of it or nothing, and wants all or nothing.
struct Cell {
  Box box;
  DeviceSets::Number holders = 0;
  DeviceSets::Number receivers = 0;  // want it and do not hold it
  DeviceSets::Number keepers = 0;    // want it and hold it
  StreamPhase phase = StreamPhase::from_sources;
};

// The cells of an array, in the order of their corners. Boxes of one side are equal or disjoint.
std::vector<Cell> find_cells(const Placement& source, const Placement& target, DeviceSets& sets);

// Cells in which every element crosses into a host once. Holders serve the devices of their own host. On other hosts,
// each device that wants the cell receives an equal share of it and passes that on. `hosts` has a number by
// device.
std::vector<Cell> split_by_hosts(const std::vector<Cell>& cells, const std::vector<std::int64_t>& hosts,
                                 DeviceSets& sets);

// The elements from `begin` up to but not including `end`, in row-major order of the box, as few boxes as their number
// of dimensions allows.
std::vector<Box> boxes_of_range(const Box& box, std::int64_t begin, std::int64_t end);

}  // namespace retile
