#include "retile/types/distributed_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/types/text.h"

namespace retile {
namespace {

using DimensionFault = DistributedType::DimensionFault;

template <typename Value>
Shape map_dimensions(const std::vector<Dimension>& dimensions, Value value) {
  Shape shape(dimensions.size());
  std::transform(dimensions.begin(), dimensions.end(), shape.begin(), value);
  return shape;
}

std::string parts_hint(const Mesh& mesh, int axis) {
  std::vector<std::string> parts;
  for (const AxisPart& prime : mesh.prime_parts()) {
    if (prime.axis == axis) parts.push_back(to_string(mesh, prime));
  }
  if (parts.size() < 2) return fmt::format("an axis of size {} has no parts but the whole", mesh.axis(axis).size);
  return fmt::format("from major to minor its parts are {}; neighbours may be joined", fmt::join(parts, ", "));
}

std::optional<Fault> part_fault(const Mesh& mesh, const AxisPart& part) {
  if (part.axis < 0 || part.axis >= mesh.axis_count()) return Fault{"an axis that the mesh does not have", {}};
  if (is_part_of_axis(mesh, part)) return std::nullopt;
  return Fault{fmt::format("{} is no part of axis {}", to_string(mesh, part), to_string(mesh, mesh.whole(part.axis))),
               parts_hint(mesh, part.axis)};
}

Fault overlap_fault(const Mesh& mesh, const AxisPart& part, const AxisPart& earlier) {
  if (part == earlier) {
    return {fmt::format("axis {} is used twice", to_string(mesh, part)), "an axis cuts at most one dimension, once"};
  }
  return {fmt::format("{} overlaps {}, which is used already", to_string(mesh, part), to_string(mesh, earlier)),
          "each part of an axis cuts at most one dimension, once"};
}

// Checks rule wf-dim: tile · Π axes = global.
std::optional<Fault> size_fault(const Mesh& mesh, const Dimension& dimension) {
  if (dimension.tile < 1 || dimension.global < 1) return Fault{"a size is below 1", "sizes start at 1"};
  std::int64_t parts = 1;
  std::string factors;
  for (const AxisPart& part : dimension.axes) {
    parts *= part.size;  // at most the number of devices: no digit occurs twice
    factors += fmt::format(" x {} ({})", part.size, to_string(mesh, part));
  }
  const std::optional<std::int64_t> whole = checked_multiply(dimension.tile, parts);
  if (whole == dimension.global) return std::nullopt;
  if (!whole) return Fault{"tile size times axes does not fit in 63 bits", {}};
  if (dimension.axes.empty()) {
    return Fault{fmt::format("tile size {} and global size {} differ, and no axis cuts the dimension", dimension.tile,
                             dimension.global),
                 {}};
  }
  const std::string hint =
      dimension.global % parts == 0
          ? fmt::format("for {} in all, the tile is {}", dimension.global, dimension.global / parts)
          : fmt::format("{} does not divide into {} tiles", dimension.global, parts);
  return Fault{fmt::format("tile and axes do not make the global size: {}{} = {}, not {}", dimension.tile, factors,
                           *whole, dimension.global),
               hint};
}

}  // namespace

std::optional<DimensionFault> DistributedType::find_fault(const Mesh& mesh, std::span<const Dimension> dimensions) {
  std::vector<AxisPart> used;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const int index = static_cast<int>(i);
    for (std::size_t j = 0; j < dimensions[i].axes.size(); ++j) {
      const AxisPart& part = dimensions[i].axes[j];
      if (auto fault = part_fault(mesh, part)) return DimensionFault{index, static_cast<int>(j), std::move(*fault)};
      const auto earlier =
          std::find_if(used.begin(), used.end(), [&](const AxisPart& other) { return overlap(part, other); });
      if (earlier != used.end()) return DimensionFault{index, static_cast<int>(j), overlap_fault(mesh, part, *earlier)};
      used.push_back(part);
    }
    if (auto fault = size_fault(mesh, dimensions[i])) return DimensionFault{index, -1, std::move(*fault)};
  }
  const Shape global =
      map_dimensions({dimensions.begin(), dimensions.end()}, [](const Dimension& d) { return d.global; });
  if (!checked_product(global)) {
    return DimensionFault{-1, -1, {"the number of elements of the global array does not fit in 63 bits", {}}};
  }
  return std::nullopt;
}

DistributedType::DistributedType(Mesh mesh, std::vector<Dimension> dimensions)
    : mesh_(std::move(mesh)), dimensions_(std::move(dimensions)) {
  if (const auto found = find_fault(mesh_, dimensions_)) throw InputError(found->fault);
}

DistributedType DistributedType::cut(const Mesh& mesh, const Shape& global,
                                     const std::vector<std::vector<AxisPart>>& axes) {
  ensure(global.size() == axes.size(), "one list of axes per dimension");
  std::vector<Dimension> dimensions(global.size());
  for (std::size_t i = 0; i < global.size(); ++i) {
    std::int64_t tiles = 1;
    for (const AxisPart& part : axes[i]) tiles = checked_multiply(tiles, part.size).value_or(0);
    const std::int64_t tile = tiles < 1 ? 1 : global[i] / tiles;  // find_fault() reports impossible parts
    dimensions[i] = {std::max<std::int64_t>(1, tile), axes[i], global[i]};
  }
  return {mesh, std::move(dimensions)};
}

DistributedType DistributedType::replicated(const Mesh& mesh, const Shape& global) {
  return cut(mesh, global, std::vector<std::vector<AxisPart>>(global.size()));
}

Shape DistributedType::global_shape() const {
  return map_dimensions(dimensions_, [](const Dimension& d) { return d.global; });
}

Shape DistributedType::local_shape() const {
  return map_dimensions(dimensions_, [](const Dimension& d) { return d.tile; });
}

std::int64_t DistributedType::global_size() const {
  std::int64_t size = 1;
  for (const Dimension& dimension : dimensions_) size *= dimension.global;
  return size;
}

std::int64_t DistributedType::local_size() const {
  std::int64_t size = 1;
  for (const Dimension& dimension : dimensions_) size *= dimension.tile;
  return size;
}

bool DistributedType::uses(const AxisPart& part) const {
  return std::any_of(dimensions_.begin(), dimensions_.end(), [&](const Dimension& dimension) {
    return std::any_of(dimension.axes.begin(), dimension.axes.end(),
                       [&](const AxisPart& other) { return overlap(part, other); });
  });
}

std::vector<AxisPart> DistributedType::free_primes() const {
  std::vector<AxisPart> free;
  for (const AxisPart& prime : mesh_.prime_parts()) {
    if (!uses(prime)) free.push_back(prime);
  }
  return free;
}

std::int64_t base_offset(const Mesh& mesh, const Dimension& dimension, Device device) {
  std::int64_t offset = 0;
  std::int64_t extent = dimension.tile;
  for (const AxisPart& part : dimension.axes) {
    offset += extent * mesh.coordinate(device, part);
    extent *= part.size;
  }
  return offset;
}

void DistributedType::base_offset(Device device, std::span<std::int64_t> offset) const {
  for (std::size_t i = 0; i < dimensions_.size(); ++i) {
    offset[i] = retile::base_offset(mesh_, dimensions_[i], device);
  }
}

Shape DistributedType::base_offset(Device device) const {
  Shape offset(dimensions_.size());
  base_offset(device, offset);
  return offset;
}

bool DistributedType::operator==(const DistributedType& other) const {
  if (mesh_ != other.mesh_ || rank() != other.rank()) return false;
  for (int i = 0; i < rank(); ++i) {
    const Dimension& a = dimension(i);
    const Dimension& b = other.dimension(i);
    if (a.tile != b.tile || a.global != b.global) return false;
    if (a.axes != b.axes && merge_neighbours(a.axes) != merge_neighbours(b.axes)) return false;
  }
  return true;
}

DistributedType split_into_primes(const DistributedType& type) {
  std::vector<Dimension> dimensions = type.dimensions();
  for (Dimension& dimension : dimensions) dimension.axes = split_into_primes(type.mesh(), dimension.axes);
  return {type.mesh(), std::move(dimensions)};
}

DistributedType merge_neighbours(const DistributedType& type) {
  std::vector<Dimension> dimensions = type.dimensions();
  for (Dimension& dimension : dimensions) dimension.axes = merge_neighbours(dimension.axes);
  return {type.mesh(), std::move(dimensions)};
}

bool same_placement(const DistributedType& a, const DistributedType& b) {
  if (a.mesh() != b.mesh() || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    const Dimension& from = a.dimension(i);
    const Dimension& to = b.dimension(i);
    if (from.global != to.global || from.tile != to.tile) return false;
    if (from.axes != to.axes && prime_digits(a.mesh(), from.axes) != prime_digits(b.mesh(), to.axes)) return false;
  }
  return true;
}

}  // namespace retile
