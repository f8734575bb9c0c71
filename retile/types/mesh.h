// Meshes of devices: named axes in declared order, and the parts that axes split into.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/list.h"

namespace retile {

// The row-major number of a device in its mesh, from 0.
using Device = std::int64_t;

struct Axis {
  std::string name;
  std::int64_t size = 1;

  bool operator==(const Axis&) const = default;
};

// A part of an axis. The axis's coordinate is read as a number whose digits are the axis's prime factors (ascending
// from major to minor). The part is a run of these digits: they count `size` together, and the digits above them count
// `major`. The whole axis has major 1 and the axis's size. Printed x:(major)size.
struct AxisPart {
  int axis = 0;  // index into Mesh::axes()
  std::int64_t major = 1;
  std::int64_t size = 1;

  bool operator==(const AxisPart&) const = default;
};

// A mesh of devices. Axis names are distinct, sizes are positive, and there are at most 2^31 - 1 devices, so that
// device numbers fit MPI ranks. A mesh without axes is one device. Immutable; copies share their data.
class Mesh {
 public:
  static constexpr std::int64_t most_devices = 2147483647;

  // Throws InputError where find_fault() finds one.
  explicit Mesh(std::vector<Axis> axes);

  struct AxisFault {
    int axis = 0;  // index of the axis at fault
    Fault fault;
  };
  static std::optional<AxisFault> find_fault(std::span<const Axis> axes);

  const std::vector<Axis>& axes() const { return data_->axes; }
  int axis_count() const { return static_cast<int>(data_->axes.size()); }
  const Axis& axis(int index) const { return at(data_->axes, index); }
  std::int64_t device_count() const { return data_->device_count; }
  std::optional<int> find_axis(std::string_view name) const;

  AxisPart whole(int axis) const { return {axis, 1, this->axis(axis).size}; }
  // The prime parts of all axes, axis by axis, major to minor. Axes of size 1 have none.
  const std::vector<AxisPart>& prime_parts() const { return data_->prime_parts; }

  // The device's coordinate along a part of an axis.
  std::int64_t coordinate(Device device, const AxisPart& part) const { return device / stride(part) % part.size; }
  // The distance between the numbers of devices whose coordinates along the part differ by one.
  std::int64_t stride(const AxisPart& part) const {
    const auto axis = static_cast<std::size_t>(part.axis);
    return data_->strides[axis] * (data_->axes[axis].size / (part.major * part.size));
  }

  bool operator==(const Mesh& other) const { return data_ == other.data_ || axes() == other.axes(); }

 private:
  struct Data {
    std::vector<Axis> axes;
    std::vector<std::int64_t> strides;  // of whole axes, in devices
    std::int64_t device_count = 1;
    std::vector<AxisPart> prime_parts;
  };
  std::shared_ptr<const Data> data_;
};

// A mesh of this many devices with one axis.
Mesh world_mesh(std::int64_t devices);

// True where the part is made of consecutive prime parts of its axis.
bool is_part_of_axis(const Mesh& mesh, const AxisPart& part);

// True where the two share a digit of an axis. A part of size 1 (of an axis of size 1) is a digit.
bool overlap(const AxisPart& a, const AxisPart& b);

// The prime parts that make up the parts, each in its part's place, minor to major. An axis of size 1 is kept: it has
// no primes, but a type may name it.
std::vector<AxisPart> split_into_primes(const Mesh& mesh, std::span<const AxisPart> parts);

// The prime parts of the given parts, without axes of size 1.
std::vector<AxisPart> prime_digits(const Mesh& mesh, std::span<const AxisPart> parts);

// The parts (minor to major) with neighbours joined that together are a larger part of one axis.
std::vector<AxisPart> merge_neighbours(std::span<const AxisPart> parts);

// The fault for a name that is no axis of the mesh, with the nearest name as a hint.
Fault unknown_axis(const Mesh& mesh, std::string_view name);

}  // namespace retile
