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

// A prime part of the mesh that cuts a dimension, and the distance between the corners that it separates.
struct Digit {
  std::int64_t step;
  AxisPart part;
};

}  // namespace

std::int64_t place_of(const Part& part, const Shape& element) {
  std::int64_t place = part.offset;
  for (std::size_t i = 0; i < element.size(); ++i) place += (element[i] - part.box.lo[i]) * part.strides[i];
  return place;
}

Part packed_part(Box box) {
  Shape strides(box.lo.size());
  std::int64_t stride = 1;
  for (std::size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= box.hi[i] - box.lo[i];
  }
  return {std::move(box), 0, std::move(strides)};
}

bool is_packed(const Part& part) {
  std::int64_t stride = 1;
  for (std::size_t i = part.strides.size(); i-- > 0;) {
    const std::int64_t length = part.box.hi[i] - part.box.lo[i];
    if (length > 1 && part.strides[i] != stride) return false;
    stride *= length;
  }
  return part.offset == 0;
}

std::int64_t end_of(const Part& part) {
  std::int64_t end = part.offset + 1;
  for (std::size_t i = 0; i < part.strides.size(); ++i) end += (part.box.hi[i] - part.box.lo[i] - 1) * part.strides[i];
  return end;
}

Placement::Placement(DistributedType type)
    : global_(type.global_shape()),
      extent_(global_),
      tile_(type.local_shape()),
      local_(tile_),
      local_size_(product(local_)),
      device_count_(type.mesh().device_count()),
      is_even_(true),
      source_(std::move(type)) {}

Placement::Placement(const Shape& global, DistributedType padded)
    : Placement(clip(Placement(std::move(padded)), global)) {}

Placement::Placement(const Shape& global, const Shape& tile, std::vector<std::int64_t> corners)
    : global_(global), extent_(global), tile_(tile), source_(std::move(corners)) {
  const auto& table = std::get<std::vector<std::int64_t>>(source_);
  ensure(!global.empty() && global.size() == tile.size() && table.size() % global.size() == 0,
         "a table of corners has one per device");
  device_count_ = static_cast<std::int64_t>(table.size() / global.size());
  bool is_even = true;
  for (std::size_t i = 0; i < global.size(); ++i) {
    is_even = is_even && tile[i] > 0 && global[i] % tile[i] == 0;
    for (std::size_t at = i; is_even && at < table.size(); at += global.size()) is_even = table[at] < global[i];
  }
  is_even_ = is_even;
  clip_to_global();
}

Placement::Placement(const Shape& global, std::vector<std::vector<Part>> parts, MemoryDimensions memory)
    : Placement(global, std::move(parts), std::move(memory), {}) {}

Placement::Placement(const Shape& global, std::vector<std::vector<Part>> parts, MemoryDimensions memory,
                     std::vector<std::int64_t> sizes)
    : global_(global),
      extent_(global),
      tile_(global),
      local_(global.size()),
      memory_(std::move(memory)),
      source_(std::vector<Held>()) {
  auto& list = std::get<std::vector<Held>>(source_);
  for (std::vector<Part>& held : parts) {
    std::int64_t elements = sizes.empty() ? 0 : sizes[list.size()];
    for (const Part& part : held) elements = std::max(elements, end_of(part));
    list.push_back({std::move(held), elements});
  }
  device_count_ = static_cast<std::int64_t>(list.size());
  is_sorted_ = std::all_of(list.begin(), list.end(), [](const Held& held) {
    return std::is_sorted(held.parts.begin(), held.parts.end(),
                          [](const Part& a, const Part& b) { return a.box.lo < b.box.lo; });
  });
  for (const auto& [held, elements] : list) {
    // At rank 0 every box has an element, so holding nothing cannot be written as one empty box.
    has_single_boxes_ = has_single_boxes_ && held.size() <= 1 && !(held.empty() && global.empty()) &&
                        (held.empty() || (is_packed(held.front()) && volume(held.front().box) == elements));
    if (elements <= local_size_) continue;
    local_size_ = elements;
    const auto smaller = [](const Part& a, const Part& b) { return volume(a.box) < volume(b.box); };
    const Box& largest = std::max_element(held.begin(), held.end(), smaller)->box;
    local_ = extent_of(largest);
  }
}

// The local shape is that of the first tile along every dimension, which some device holds.
void Placement::clip_to_global() {
  local_ = tile_;
  for (std::size_t i = 0; i < local_.size(); ++i) local_[i] = std::min(tile_[i], global_[i]);
  local_size_ = product(local_);
}

void Placement::offset(Device device, std::span<std::int64_t> corner) const {
  if (const DistributedType* typed = type()) {
    typed->base_offset(device, corner);
    return;
  }
  if (const auto* list = std::get_if<std::vector<Held>>(&source_)) {
    const std::vector<Part>& held = (*list)[static_cast<std::size_t>(device)].parts;
    const Shape first = held.empty() ? Shape(global_.size()) : held.front().box.lo;
    std::copy(first.begin(), first.end(), corner.begin());
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

Box Placement::box(Device device) const {
  if (const auto* list = std::get_if<std::vector<Held>>(&source_)) {
    const std::vector<Part>& held = (*list)[static_cast<std::size_t>(device)].parts;
    ensure(held.size() <= 1, "the device holds one box");
    return held.empty() ? Box{Shape(global_.size()), Shape(global_.size())} : held.front().box;
  }
  Box box = box_at(offset(device), tile_);
  if (is_even_) return box;
  for (std::size_t i = 0; i < global_.size(); ++i) {
    box.lo[i] = std::min(box.lo[i], global_[i]);
    box.hi[i] = std::min(box.hi[i], global_[i]);
  }
  return box;
}

std::vector<Part> Placement::parts(Device device) const {
  if (const auto* list = std::get_if<std::vector<Held>>(&source_)) {
    return (*list)[static_cast<std::size_t>(device)].parts;
  }
  Box only = box(device);
  if (volume(only) == 0) return {};
  return {packed_part(std::move(only))};
}

std::optional<Part> Placement::part_around(Device device, const Box& box) const {
  const auto* list = std::get_if<std::vector<Held>>(&source_);
  if (list == nullptr) {
    Box only = this->box(device);
    if (!contains(only, box)) return std::nullopt;
    return packed_part(std::move(only));
  }
  // The part is not among those whose corners come after the box's. If parts are tiles in rows and columns, it is in
  // the last row before them.
  const std::vector<Part>& held = (*list)[static_cast<std::size_t>(device)].parts;
  const auto comes_later = [](const Shape& corner, const Part& part) { return corner < part.box.lo; };
  auto part = is_sorted_ ? std::upper_bound(held.begin(), held.end(), box.lo, comes_later) : held.end();
  while (part != held.begin()) {
    if (contains((--part)->box, box)) return *part;
  }
  return std::nullopt;
}

std::int64_t Placement::size(Device device) const {
  if (is_even_) return local_size_;
  if (const auto* list = std::get_if<std::vector<Held>>(&source_)) {
    return (*list)[static_cast<std::size_t>(device)].size;
  }
  return volume(box(device));
}

bool Placement::operator==(const Placement& other) const {
  if (global_ != other.global_ || device_count_ != other.device_count_) return false;
  if (is_even_ && other.is_even_) {
    if (local_ != other.local_) return false;
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
  for (Device device = 0; device < device_count_; ++device) {
    if (size(device) != other.size(device) || parts(device) != other.parts(device)) return false;
  }
  return true;
}

Placement clip(const Placement& placement, const Shape& global) {
  ensure(!placement.is_listed(), "tiles of a grid are clipped");
  if (placement.global_shape() == global) return placement;
  Placement clipped = placement;
  clipped.global_ = global;
  clipped.is_even_ = false;
  clipped.clip_to_global();
  return clipped;
}

bool is_on_grid(const Placement& placement) {
  const Shape& global = placement.global_shape();
  const Shape& local = placement.tile_shape();
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
  if (!placement.is_even()) return std::nullopt;
  if (const DistributedType* type = placement.type(); type != nullptr && type->mesh() == mesh) return *type;
  ensure(mesh.device_count() == placement.device_count(), "a placement has a box for each device");

  // A device whose coordinates are all 0 except for a 1 along one prime part shows what that part cuts.
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
    tiles *= placement.grid_extent()[i] / placement.tile_shape()[i];
  }
  if (placement.device_count() % tiles != 0) return false;
  return std::all_of(holders.begin(), holders.end(),
                     [&](const auto& entry) { return entry.second == placement.device_count() / tiles; });
}

std::string to_string(const Mesh& mesh, const Placement& placement) {
  if (const auto type = find_type(mesh, placement)) return to_string(*type);
  Shape tiles = placement.global_shape();
  if (placement.is_listed()) return fmt::format("listed boxes of at most {} elements", placement.local_size());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    tiles[i] = (tiles[i] + placement.tile_shape()[i] - 1) / placement.tile_shape()[i];
  }
  return fmt::format("local {}, tiles {}", to_string(placement.local_shape()), to_string(tiles));
}

}  // namespace retile
