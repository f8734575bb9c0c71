#include "retile/types/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// A prime part of the mesh that cuts a dimension, with the distance between neighbouring corners.
struct Digit {
  std::int64_t step;
  AxisPart part;
};

}  // namespace

Placement::Placement(DistributedType type)
    : global_(type.global_shape()),
      local_(type.local_shape()),
      device_count_(type.mesh().device_count()),
      source_(std::move(type)) {}

Placement::Placement(const Shape& global, const Shape& local, std::vector<std::int64_t> corners)
    : global_(global), local_(local), device_count_(0), source_(std::move(corners)) {
  const auto& table = std::get<std::vector<std::int64_t>>(source_);
  ensure(!global.empty() && global.size() == local.size() && table.size() % global.size() == 0,
         "a table of corners has one per device");
  device_count_ = static_cast<std::int64_t>(table.size() / global.size());
}

std::int64_t Placement::local_size() const { return product(local_); }

void Placement::offset(Device device, std::span<std::int64_t> corner) const {
  if (const DistributedType* typed = type()) {
    typed->base_offset(device, corner);
    return;
  }
  const auto& table = std::get<std::vector<std::int64_t>>(source_);
  std::copy_n(table.begin() + device * rank(), rank(), corner.begin());
}

Shape Placement::offset(Device device) const {
  Shape corner(global_.size());
  offset(device, corner);
  return corner;
}

Box Placement::box(Device device) const { return box_at(offset(device), local_); }

bool Placement::operator==(const Placement& other) const {
  if (global_ != other.global_ || local_ != other.local_ || device_count_ != other.device_count_) return false;
  if (type() != nullptr && other.type() != nullptr && type()->mesh() == other.type()->mesh()) {
    return same_placement(*type(), *other.type());
  }
  Shape mine(global_.size());
  Shape others(global_.size());
  for (Device device = 0; device < device_count_; ++device) {
    offset(device, mine);
    other.offset(device, others);
    if (mine != others) return false;
  }
  return true;
}

bool is_on_grid(const Placement& placement) {
  const Shape& global = placement.global_shape();
  const Shape& local = placement.local_shape();
  for (std::size_t i = 0; i < global.size(); ++i) {
    if (local[i] < 1 || global[i] < local[i] || global[i] % local[i] != 0) return false;
  }
  Shape corner(global.size());
  for (Device device = 0; device < placement.device_count(); ++device) {
    placement.offset(device, corner);
    for (std::size_t i = 0; i < global.size(); ++i) {
      if (corner[i] < 0 || corner[i] >= global[i] || corner[i] % local[i] != 0) return false;
    }
  }
  return true;
}

std::optional<DistributedType> find_type(const Mesh& mesh, const Placement& placement) {
  if (const DistributedType* type = placement.type(); type != nullptr && type->mesh() == mesh) return *type;
  ensure(mesh.device_count() == placement.device_count(), "a placement has a box for each device");

  // A device whose coordinates are all 0 but for a 1 along one prime part tells what that part cuts.
  const std::size_t rank = placement.global_shape().size();
  std::vector<std::vector<Digit>> digits(rank);
  for (const AxisPart& part : mesh.prime_parts()) {
    const Shape corner = placement.offset(mesh.stride(part));
    for (std::size_t i = 0; i < rank; ++i) {
      if (corner[i] != 0) digits[i].push_back({corner[i], part});
    }
  }
  std::vector<Dimension> dimensions(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    std::sort(digits[i].begin(), digits[i].end(), [](const Digit& a, const Digit& b) { return a.step < b.step; });
    dimensions[i] = {placement.local_shape()[i], {}, placement.global_shape()[i]};
    for (const Digit& digit : digits[i]) dimensions[i].axes.push_back(digit.part);
    dimensions[i].axes = merge_neighbours(dimensions[i].axes);
  }
  if (DistributedType::find_fault(mesh, dimensions)) return std::nullopt;
  DistributedType candidate(mesh, std::move(dimensions));
  if (!(Placement(candidate) == placement)) return std::nullopt;
  return candidate;
}

bool is_balanced(const Placement& placement) {
  std::map<Shape, std::int64_t> holders;
  for (Device device = 0; device < placement.device_count(); ++device) ++holders[placement.offset(device)];
  std::int64_t tiles = 1;
  for (std::size_t i = 0; i < placement.global_shape().size(); ++i) {
    tiles *= placement.global_shape()[i] / placement.local_shape()[i];
  }
  if (placement.device_count() % tiles != 0) return false;
  return std::all_of(holders.begin(), holders.end(),
                     [&](const auto& entry) { return entry.second == placement.device_count() / tiles; });
}

std::string to_string(const Mesh& mesh, const Placement& placement) {
  if (const auto type = find_type(mesh, placement)) return to_string(*type);
  Shape tiles = placement.global_shape();
  for (std::size_t i = 0; i < tiles.size(); ++i) tiles[i] /= placement.local_shape()[i];
  return fmt::format("local {}, tiles {}", to_string(placement.local_shape()), to_string(tiles));
}

}  // namespace retile
