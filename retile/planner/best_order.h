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

// Classes of equal devices, and the boxes of each class.
class TileClasses {
 public:
  // Puts devices that hold the same boxes into one class.
  TileClasses(const Placement& placement, const std::vector<Device>& devices);
  // Puts devices on the same host into one class. It has the boxes of all devices on the host, including those not in
  // `devices`. `host_of` has the number of each device's host.
  TileClasses(const Placement& placement, const std::vector<Device>& devices, const std::vector<std::int64_t>& host_of);

  std::size_t count() const { return boxes_.size(); }
  const std::vector<Box>& boxes(std::size_t number) const { return boxes_[number]; }
  std::int64_t elements(std::size_t number) const;
  std::size_t of(std::size_t place) const { return class_of_[place]; }  // the class, by index into the devices
  const std::vector<std::int64_t>& sizes() const { return sizes_; }     // the number of devices of each class
  Device first_device(std::size_t number) const { return first_devices_[number]; }

 private:
  void add_class(const std::vector<std::pair<Shape, Shape>>& corners, Device first);
  void add_device(std::size_t number);

  std::vector<std::vector<Box>> boxes_;
  std::vector<std::size_t> class_of_;
  std::vector<std::int64_t> sizes_;
  std::vector<Device> first_devices_;
};

// The number of elements that each class of holders has of each class of wanted tiles, where it is not 0. Sorted by
// column, then by row.
std::vector<TransportGain> overlaps(const TileClasses& held, const TileClasses& wanted);

// The order of devices, one for each place, in which the gains are largest. A place is a tile of the target with the
// device that it is given at first. Classes of devices are the rows of a transport problem, places with equal tiles a
// column, and a device that gets a tile is a unit shipped.
class BestOrder {
 public:
  // `devices` has the device that each place is given; `held` are these devices' classes, `wanted` the classes of the
  // tiles. `gains` are sorted by column, then by row.
  BestOrder(std::vector<Device> devices, TileClasses held, TileClasses wanted, std::vector<TransportGain> gains);

  // The largest gain over all orders, which prices prove, and the gain of the given order.
  std::int64_t gained() const { return transport_.total; }
  std::int64_t gained_before() const { return gained_before_; }
  // The gain of this order, which has a device for each place.
  std::int64_t gain_of(const std::vector<Device>& order) const;

  // The device of each place. As many places as the transport allows keep the device that they were given.
  std::vector<Device> devices() const;

 private:
  std::optional<std::size_t> find_entry(std::size_t row, std::size_t column) const;
  std::optional<std::size_t> given_entry(std::size_t place) const {
    return find_entry(held_.of(place), wanted_.of(place));
  }
  template <typename Choose>
  void ship_rest(const std::vector<std::int64_t>& units, const std::vector<std::optional<Device>>& chosen,
                 const std::vector<bool>& is_used, Choose choose) const;

  std::vector<Device> devices_;  // by place, in the given order
  TileClasses held_;             // classes of the devices, by place
  TileClasses wanted_;           // classes of the places
  TransportProblem transport_problem_;
  Transport transport_;
  std::int64_t gained_before_ = 0;
};

}  // namespace retile
