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

// Row-major number of a device in its mesh, from 0.
using Device = std::int64_t;

struct Axis {
  std::string name;
  std::int64_t size = 1;

  bool operator==(const Axis&) const = default;
};

// A part of an axis: of its coordinate, read as a number with the axis's prime factors as digits
// (ascending from major to minor), the digits that together count `size`, below digits that count
// `major`. The whole axis has major 1 and the axis's size. Printed x:(major)size.
struct AxisPart {
  int axis = 0;  // index into Mesh::axes()
  std::int64_t major = 1;
  std::int64_t size = 1;

  bool operator==(const AxisPart&) const = default;
};

// Names distinct, sizes positive, at most 2^31 - 1 devices (device numbers fit where MPI ranks do). A mesh without axes
// is one device. Immutable; copies share their data.
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
  // Every axis's prime parts, axis by axis, major to minor. Axes of size 1 have none.
  const std::vector<AxisPart>& prime_parts() const { return data_->prime_parts; }

  // The device's coordinate along a part of an axis.
  std::int64_t coordinate(Device device, const AxisPart& part) const { return device / stride(part) % part.size; }
  // How far apart the numbers of devices are whose coordinates along the part differ by one.
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

// A mesh of so many devices in a row.
Mesh world_mesh(std::int64_t devices);

// True where the part is made of consecutive prime parts of its axis.
bool is_part_of_axis(const Mesh& mesh, const AxisPart& part);

// True where the two share a digit of an axis. A part of size 1 (of an axis of size 1) is a digit.
bool overlap(const AxisPart& a, const AxisPart& b);

// The prime parts that make up the parts, each part in its place, minor to major. An axis of size 1
// stays as it is: it has no primes, but a type may name it.
std::vector<AxisPart> split_into_primes(const Mesh& mesh, std::span<const AxisPart> parts);

// The prime parts of the given parts, without axes of size 1.
std::vector<AxisPart> prime_digits(const Mesh& mesh, std::span<const AxisPart> parts);

// Joins neighbours (listed minor to major) that together are a larger part of one axis.
std::vector<AxisPart> merge_neighbours(std::span<const AxisPart> parts);

// Fault for a name that is no axis of the mesh, with the nearest name as a hint.
Fault unknown_axis(const Mesh& mesh, std::string_view name);

}  // namespace retile
