// Orders of devices: which of some devices gets which tile, so that the gains are largest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "retile/planner/transport.h"
#include "retile/types/placement.h"

namespace retile {

// Devices that are alike, in classes, and the boxes of each class.
class TileClasses {
 public:
  // Devices are alike if they hold the same boxes.
  TileClasses(const Placement& placement, const std::vector<Device>& devices);
  // Devices are alike if they are on one host. It has the boxes of all its devices, listed here or not. `host_of` has
  // a number by device.
  TileClasses(const Placement& placement, const std::vector<Device>& devices, const std::vector<std::int64_t>& host_of);

  std::size_t count() const { return boxes_.size(); }
  const std::vector<Box>& boxes(std::size_t number) const { return boxes_[number]; }
  std::int64_t elements(std::size_t number) const;
  std::size_t of(std::size_t place) const { return class_of_[place]; }  // by index into the devices
  const std::vector<std::int64_t>& sizes() const { return sizes_; }     // devices of each class
  Device first_device(std::size_t number) const { return first_devices_[number]; }

 private:
  void add_class(const std::vector<std::pair<Shape, Shape>>& corners, Device first);
  void add_device(std::size_t number);

  std::vector<std::vector<Box>> boxes_;
  std::vector<std::size_t> class_of_;
  std::vector<std::int64_t> sizes_;
  std::vector<Device> first_devices_;
};

// What each class of holders has of each class of wanted tiles, in elements, where it has some. By column, then by row.
std::vector<TransportGain> overlaps(const TileClasses& held, const TileClasses& wanted);

// The order of some devices, one for each place, in which the gains are largest. Places are tiles of a target, each
// with a device that it is given at first. Classes of devices are rows of a transport problem, places with equal tiles
// one column, and a unit that is shipped is a device that gets a tile.
class BestOrder {
 public:
  // `devices` has the device that each place is given; `held` are these devices' classes, `wanted` those of the tiles.
  // `gains` are by column, then by row.
  BestOrder(std::vector<Device> devices, TileClasses held, TileClasses wanted, std::vector<TransportGain> gains);

  // What is gained at most, which prices prove, and in the order that was given.
  std::int64_t gained() const { return transport_.total; }
  std::int64_t gained_before() const { return gained_before_; }
  // What is gained where each place has this device.
  std::int64_t gain_of(const std::vector<Device>& order) const;

  // The device of each place. As many places as the transport allows keep theirs.
  std::vector<Device> devices() const;

 private:
  std::optional<std::size_t> find_entry(std::size_t row, std::size_t column) const;
  std::optional<std::size_t> given_entry(std::size_t place) const {
    return find_entry(held_.of(place), wanted_.of(place));
  }
  template <typename Choose>
  void ship_rest(const std::vector<std::int64_t>& units, const std::vector<std::optional<Device>>& chosen,
                 const std::vector<bool>& is_used, Choose choose) const;

  std::vector<Device> devices_;  // by place, as they were given
  TileClasses held_;             // of the devices, by place
  TileClasses wanted_;           // of the places
  TransportProblem transport_problem_;
  Transport transport_;
  std::int64_t gained_before_ = 0;
};

}  // namespace retile
