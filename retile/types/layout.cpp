#include "retile/types/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/names.h"
#include "retile/types/text.h"

namespace retile {
namespace {

constexpr Names<UnevenRule, 3> rule_names{{"ceil", "nested", "balanced"}};
constexpr Names<Reduction, 3> reductions{{"sum", "max", "min"}};

using MeshFault = Layout::MeshFault;
using BoxFault = Layout::BoxFault;

// So many that it takes no time to look at all of them.
constexpr std::int64_t most_compared_tiles = std::int64_t{1} << 20U;

std::int64_t size_of(const std::vector<Factor>& factors) {
  std::int64_t size = 1;
  for (const Factor& factor : factors) size *= factor.size;
  return size;
}

// --- Intervals along one dimension.

// What is held of a factor, whose size is known.
struct HeldFactor {
  std::int64_t size = 1;
  Interval held;
};

// What is then held of the dimension, whose factors come major to minor: runs of neighbouring elements, ascending.
std::vector<Interval> held_runs(const std::vector<HeldFactor>& factors) {
  std::vector<Interval> runs{{0, 1}};
  std::int64_t stride = 1;  // of the factor in the dimension
  for (auto factor = factors.rbegin(); factor != factors.rend(); ++factor) {
    const Interval& held = factor->held;
    std::vector<Interval> longer;
    const bool is_whole = runs.size() == 1 && runs[0] == Interval{0, stride};
    if (held.size() > 0 && is_whole) longer.push_back({held.lo * stride, held.hi * stride});
    for (std::int64_t i = held.lo; i < held.hi && !is_whole; ++i) {
      for (const Interval& run : runs) longer.push_back({run.lo + i * stride, run.hi + i * stride});
    }
    runs = std::move(longer);
    stride *= factor->size;
  }
  return runs;
}

std::vector<Interval> held_runs(const MeshLayout& layout, const std::vector<Factor>& factors, Device device) {
  std::vector<HeldFactor> held;
  for (const Factor& factor : factors) {
    const std::int64_t coordinate = coordinate_along(layout.mesh, factor.axes, device);
    held.push_back({factor.size, cut_interval(factor.size, factor.axes, layout.rule, coordinate)});
  }
  return held_runs(held);
}

// All combinations of runs of the dimensions, as they lie in the device's array: row-major, without what it lacks.
std::vector<Part> held_parts(const std::vector<std::vector<Interval>>& runs) {
  std::vector<Part> parts{{}};
  for (const std::vector<Interval>& dimension : runs) {
    std::vector<Part> more;
    std::int64_t length = 0;
    for (const Interval& run : dimension) length += run.size();
    for (const Part& part : parts) {
      std::int64_t before = 0;
      for (const Interval& run : dimension) {
        Part& longer = more.emplace_back(part);
        longer.box.lo.push_back(run.lo);
        longer.box.hi.push_back(run.hi);
        for (std::int64_t& stride : longer.strides) stride *= length;
        longer.strides.push_back(1);
        longer.offset = part.offset * length + before;
        before += run.size();
      }
    }
    parts = std::move(more);
  }
  return parts;
}

std::vector<Part> listed_parts(const std::vector<Box>& boxes) {
  std::vector<Part> parts;
  std::int64_t offset = 0;
  for (const Box& box : boxes) {
    if (volume(box) == 0) continue;
    parts.push_back(packed_part(box));
    parts.back().offset = std::exchange(offset, offset + volume(box));
  }
  return parts;
}

// --- Types.

// Nothing where a type cannot say it.
std::optional<DistributedType> find_type(const MeshLayout& layout) {
  if (!layout.partial.empty() || !layout.devices.empty()) return std::nullopt;
  std::vector<Dimension> dimensions;
  for (const std::vector<Factor>& factors : layout.view) {
    const Factor& whole = factors.front();
    const std::int64_t count = tile_count(whole.axes);
    if (factors.size() != 1 || whole.size == 0 || whole.size % count != 0) return std::nullopt;
    dimensions.push_back({whole.size / count, whole.axes, whole.size});
  }
  return DistributedType(layout.mesh, std::move(dimensions));
}

MeshLayout mesh_layout_of(const DistributedType& type) {
  MeshLayout layout{type.mesh(), {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
  for (const Dimension& dimension : type.dimensions()) layout.view.push_back({{dimension.global, dimension.axes}});
  return layout;
}

// Written in one way: an axis is the same as its neighbouring parts, but where ceilings nest.
MeshLayout with_merged_axes(MeshLayout layout) {
  if (layout.rule == UnevenRule::nested) return layout;
  for (std::vector<Factor>& factors : layout.view) {
    for (Factor& factor : factors) factor.axes = merge_neighbours(factor.axes);
  }
  return layout;
}

// --- Faults.

std::optional<Fault> find_axis_fault(const Mesh& mesh, const AxisPart& part, std::vector<AxisPart>& used) {
  // A type of one dimension that is long enough says what is wrong with the axes.
  std::vector<AxisPart> axes = used;
  axes.push_back(part);
  std::int64_t size = 1;
  for (const AxisPart& axis : axes) size = checked_multiply(size, std::max<std::int64_t>(1, axis.size)).value_or(1);
  const std::vector<Dimension> dimension{{1, axes, size}};
  auto found = DistributedType::find_fault(mesh, dimension);
  used.push_back(part);
  if (found && found->axis == static_cast<int>(axes.size()) - 1) return std::move(found->fault);
  return std::nullopt;
}

std::optional<MeshFault> find_device_fault(const MeshLayout& layout) {
  const auto at = [](int device, Fault fault) { return MeshFault{-1, -1, -1, device, std::move(fault)}; };
  if (layout.devices.empty()) return std::nullopt;
  if (static_cast<std::int64_t>(layout.devices.size()) != layout.mesh.device_count()) {
    return at(-1, {fmt::format("{} devices for a mesh of {}", layout.devices.size(), layout.mesh.device_count()),
                   "list the devices of the world in row-major order of the mesh"});
  }
  std::set<Device> seen;
  for (std::size_t i = 0; i < layout.devices.size(); ++i) {
    const Device device = layout.devices[i];
    if (device < 0 || device >= Mesh::most_devices) {
      return at(static_cast<int>(i), {fmt::format("{} is no device", device),
                                      fmt::format("the largest world has devices 0 to {}", Mesh::most_devices - 1)});
    }
    if (!seen.insert(device).second) {
      return at(static_cast<int>(i),
                {fmt::format("device {} is listed twice", device), "each place of the mesh has a device of its own"});
    }
  }
  return std::nullopt;
}

bool is_box_of(const Box& box, const Shape& shape) {
  if (box.lo.size() != shape.size() || box.hi.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (box.lo[i] < 0 || box.lo[i] > box.hi[i] || box.hi[i] > shape[i]) return false;
  }
  return true;
}

// An element of the array that no box holds.
std::optional<Shape> find_missing(const Shape& shape, const std::set<std::pair<Shape, Shape>>& boxes) {
  std::vector<Box> missing{{Shape(shape.size()), shape}};
  for (const auto& [lo, hi] : boxes) {
    std::vector<Box> rest;
    for (const Box& box : missing) {
      for (Box& left : subtract(box, {lo, hi})) rest.push_back(std::move(left));
    }
    missing = std::move(rest);
  }
  if (missing.empty()) return std::nullopt;
  return missing.front().lo;
}

}  // namespace

const char* name_of(UnevenRule rule) { return rule_names.of(rule); }

std::optional<UnevenRule> find_uneven_rule(std::string_view name) { return rule_names.find(name); }

const char* name_of(Reduction reduction) { return reductions.of(reduction); }

std::optional<Reduction> find_reduction(std::string_view name) { return reductions.find(name); }

std::int64_t tile_count(const std::vector<AxisPart>& axes) {
  std::int64_t count = 1;
  for (const AxisPart& part : axes) count *= part.size;
  return count;
}

Interval cut_interval(std::int64_t size, const std::vector<AxisPart>& axes, UnevenRule rule, std::int64_t coordinate) {
  const std::int64_t count = tile_count(axes);
  if (rule == UnevenRule::balanced) {
    const std::int64_t longer = size % count;
    const auto start = [&](std::int64_t tile) { return tile * (size / count) + std::min(tile, longer); };
    return {start(coordinate), start(coordinate + 1)};
  }
  if (rule == UnevenRule::ceiling) {
    const std::int64_t tile = divide_up(size, count);
    return {std::min(tile * coordinate, size), std::min(tile * (coordinate + 1), size)};
  }
  std::int64_t lo = 0;
  std::int64_t left = size;
  std::int64_t below = count;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {  // major to minor
    below /= axis->size;
    const std::int64_t tile = divide_up(left, axis->size);
    const std::int64_t index = coordinate / below % axis->size;
    const std::int64_t begin = std::min(tile * index, left);
    const std::int64_t end = std::min(tile * (index + 1), left);
    lo += begin;
    left = end - begin;
  }
  return {lo, lo + left};
}

std::int64_t coordinate_along(const Mesh& mesh, const std::vector<AxisPart>& axes, Device device) {
  std::int64_t coordinate = 0;
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    coordinate = coordinate * axis->size + mesh.coordinate(device, *axis);
  }
  return coordinate;
}

bool same_tiles(const Factor& factor, UnevenRule a, UnevenRule b) {
  const std::int64_t count = tile_count(factor.axes);
  if (a == b || factor.size % count == 0) return true;
  if (count > most_compared_tiles) return false;  // for all that is known
  for (std::int64_t i = 0; i < count; ++i) {
    if (cut_interval(factor.size, factor.axes, a, i) != cut_interval(factor.size, factor.axes, b, i)) return false;
  }
  return true;
}

std::optional<MeshFault> Layout::find_fault(const MeshLayout& layout) {
  std::vector<AxisPart> used;
  std::optional<std::int64_t> elements = 1;
  for (std::size_t i = 0; i < layout.view.size(); ++i) {
    for (std::size_t j = 0; j < layout.view[i].size(); ++j) {
      const Factor& factor = layout.view[i][j];
      const auto at = [&](int axis, Fault fault) {
        return MeshFault{static_cast<int>(i), static_cast<int>(j), axis, -1, std::move(fault)};
      };
      if (factor.size < 0) return at(-1, {"a size is below 0", {}});
      for (std::size_t k = 0; k < factor.axes.size(); ++k) {
        if (auto fault = find_axis_fault(layout.mesh, factor.axes[k], used)) {
          return at(static_cast<int>(k), std::move(*fault));
        }
      }
      if (factor.size > 0 && elements) elements = checked_multiply(*elements, factor.size);
    }
  }
  for (std::size_t k = 0; k < layout.partial.size(); ++k) {
    auto fault = find_axis_fault(layout.mesh, layout.partial[k], used);
    if (!fault) continue;
    if (k < 1 || fault->message.find("twice") == std::string::npos) {
      fault->hint =
          fmt::format("the devices along an axis hold either tiles or parts of a {}", name_of(layout.reduction));
    }
    return MeshFault{-1, -1, static_cast<int>(k), -1, std::move(*fault)};
  }
  if (!elements) {
    return MeshFault{-1, -1, -1, -1, {"the number of elements of the global array does not fit in 63 bits", {}}};
  }
  return find_device_fault(layout);
}

std::optional<BoxFault> Layout::find_fault(const BoxLayout& layout) {
  if (!checked_product(layout.shape)) {
    return BoxFault{-1, -1, {"the number of elements of the global array does not fit in 63 bits", {}}};
  }
  struct Place {
    int device;
    int box;
  };
  std::map<std::pair<Shape, Shape>, Place> distinct;  // by corner
  for (std::size_t device = 0; device < layout.boxes.size(); ++device) {
    std::set<std::pair<Shape, Shape>> own;
    for (std::size_t i = 0; i < layout.boxes[device].size(); ++i) {
      const Box& box = layout.boxes[device][i];
      const Place place{static_cast<int>(device), static_cast<int>(i)};
      if (!is_box_of(box, layout.shape)) {
        return BoxFault{place.device,
                        place.box,
                        {fmt::format("{} is no box of an array of {}", to_string(box), to_string(layout.shape)),
                         "a box goes from its first elements up to but not including its last, inside the array"}};
      }
      if (volume(box) == 0) continue;
      if (!own.emplace(box.lo, box.hi).second) {
        return BoxFault{
            place.device,
            place.box,
            {fmt::format("device {} holds {} twice", device, to_string(box)), "list each of its boxes once"}};
      }
      distinct.emplace(std::pair(box.lo, box.hi), place);
    }
  }
  std::int64_t held = 0;
  std::set<std::pair<Shape, Shape>> boxes;
  for (auto one = distinct.begin(); one != distinct.end(); ++one) {
    const Box box{one->first.first, one->first.second};
    held = checked_add(held, volume(box)).value_or(INT64_MAX);
    boxes.insert(one->first);
    for (auto other = std::next(one); other != distinct.end(); ++other) {
      if (!box.lo.empty() && other->first.first[0] >= box.hi[0]) break;  // they ascend by their corners
      const Box second{other->first.first, other->first.second};
      if (!intersect(box, second)) continue;
      const auto later = [](const Place& a, const Place& b) {
        return std::pair(a.device, a.box) < std::pair(b.device, b.box);
      };
      const bool is_later = later(one->second, other->second);
      const Place& place = is_later ? other->second : one->second;
      return BoxFault{place.device,
                      place.box,
                      {fmt::format("{} of device {} and {} of device {} overlap, and are not the same",
                                   to_string(is_later ? second : box), place.device, to_string(is_later ? box : second),
                                   (is_later ? one : other)->second.device),
                       "replicas hold equal boxes; all others are disjoint"}};
    }
  }
  if (held < product(layout.shape)) {
    return BoxFault{-1,
                    -1,
                    {fmt::format("no device holds element {}", to_string(*find_missing(layout.shape, boxes))),
                     "together the boxes make up the array"}};
  }
  return std::nullopt;
}

Layout::Layout(MeshLayout layout) : form_(BoxLayout{}) {
  std::sort(layout.partial.begin(), layout.partial.end(), [](const AxisPart& a, const AxisPart& b) {
    return std::pair(a.axis, a.major) < std::pair(b.axis, b.major);
  });
  if (const auto found = find_fault(layout)) throw InputError(found->fault);
  std::erase_if(layout.partial, [](const AxisPart& part) { return part.size == 1; });  // a sum of one part
  if (auto type = find_type(layout)) {
    form_ = std::move(*type);
  } else {
    form_ = with_merged_axes(std::move(layout));
  }
}

Layout::Layout(BoxLayout layout) : form_(std::move(layout)) {
  if (const auto found = find_fault(std::get<BoxLayout>(form_))) throw InputError(found->fault);
}

std::optional<MeshLayout> Layout::cuts() const {
  if (const DistributedType* even = type()) return mesh_layout_of(*even);
  if (const auto* layout = std::get_if<MeshLayout>(&form_)) return *layout;
  return std::nullopt;
}

const std::vector<AxisPart>& Layout::partial() const {
  static const std::vector<AxisPart> none;
  const auto* layout = std::get_if<MeshLayout>(&form_);
  return layout != nullptr ? layout->partial : none;
}

Layout Layout::stacked() const {
  if (!is_partial()) return *this;
  MeshLayout layout = std::get<MeshLayout>(form_);
  View view;
  for (const AxisPart& part : layout.partial) view.push_back({{part.size, {part}}});
  view.insert(view.end(), layout.view.begin(), layout.view.end());
  layout.view = std::move(view);
  layout.partial.clear();
  return Layout(std::move(layout));
}

Shape Layout::global_shape() const {
  if (const DistributedType* even = type()) return even->global_shape();
  if (const BoxLayout* boxes = listed()) return boxes->shape;
  Shape shape;
  for (const std::vector<Factor>& factors : std::get<MeshLayout>(form_).view) shape.push_back(size_of(factors));
  return shape;
}

std::int64_t Layout::local_size() const {
  if (const DistributedType* even = type()) return even->local_size();
  std::int64_t largest = 0;
  if (const BoxLayout* boxes = listed()) {
    for (const std::vector<Box>& list : boxes->boxes) {
      std::int64_t held = 0;
      for (const Box& box : list) held += volume(box);
      largest = std::max(largest, held);
    }
    return largest;
  }
  largest = 1;
  const auto& layout = std::get<MeshLayout>(form_);
  for (const std::vector<Factor>& factors : layout.view) {
    for (const Factor& factor : factors) largest *= cut_interval(factor.size, factor.axes, layout.rule, 0).size();
  }
  return largest;
}

std::int64_t Layout::device_count() const {
  if (const DistributedType* even = type()) return even->mesh().device_count();
  if (const BoxLayout* boxes = listed()) return static_cast<std::int64_t>(boxes->boxes.size());
  const auto& layout = std::get<MeshLayout>(form_);
  if (layout.devices.empty()) return layout.mesh.device_count();
  return 1 + *std::max_element(layout.devices.begin(), layout.devices.end());
}

Placement Layout::placement(std::int64_t world) const {
  ensure(world >= device_count(), "the layout's devices are in the world");
  if (is_partial()) return stacked().placement(world);
  if (type() != nullptr && world == device_count()) return Placement(*type());
  if (world > most_listed_world) {
    throw InputError(fmt::format("{} devices are too many to list what they hold", world),
                     fmt::format("beyond types of one mesh, worlds have up to {} devices", most_listed_world));
  }
  std::vector<std::vector<Part>> parts(static_cast<std::size_t>(world));
  if (const BoxLayout* boxes = listed()) {
    for (std::size_t device = 0; device < boxes->boxes.size(); ++device) {
      parts[device] = listed_parts(boxes->boxes[device]);
    }
    return {global_shape(), std::move(parts)};
  }
  const MeshLayout layout = *cuts();
  std::vector<std::vector<Interval>> runs(layout.view.size());
  for (Device index = 0; index < layout.mesh.device_count(); ++index) {
    for (std::size_t i = 0; i < runs.size(); ++i) runs[i] = held_runs(layout, layout.view[i], index);
    const Device device = layout.devices.empty() ? index : layout.devices[static_cast<std::size_t>(index)];
    parts[static_cast<std::size_t>(device)] = held_parts(runs);
  }
  return {global_shape(), std::move(parts)};
}

Placement without_view(const Placement& placement, const std::vector<Shape>& view) {
  if (view.empty()) return placement;
  Shape shape;
  for (const Shape& factors : view) shape.push_back(product(factors));
  const Box array{Shape(static_cast<std::size_t>(placement.rank())), placement.global_shape()};
  std::vector<std::vector<Part>> parts(static_cast<std::size_t>(placement.device_count()));
  const auto parts_of = [&](const Box& box) {
    std::vector<std::vector<Interval>> runs;
    std::size_t at = 0;
    for (const Shape& factors : view) {
      std::vector<HeldFactor> held;
      for (const std::int64_t size : factors) {
        held.push_back({size, {box.lo[at], box.hi[at]}});
        ++at;
      }
      runs.push_back(held_runs(held));
    }
    return held_parts(runs);
  };
  for (Device device = 0; device < placement.device_count(); ++device) {
    for (const Part& seen : placement.parts(device)) {
      const std::optional<Box> inside = intersect(seen.box, array);  // somebody's box may be anywhere
      if (!inside) continue;
      for (Part& part : parts_of(*inside)) {
        part.offset += seen.offset;
        parts[static_cast<std::size_t>(device)].push_back(std::move(part));
      }
    }
  }
  return {shape, std::move(parts)};
}

std::optional<Placement> with_view(const Placement& placement, const std::vector<Shape>& view) {
  Shape shape;
  for (const Shape& factors : view) shape.insert(shape.end(), factors.begin(), factors.end());
  std::vector<std::vector<Part>> parts(static_cast<std::size_t>(placement.device_count()));
  for (Device device = 0; device < placement.device_count(); ++device) {
    const std::vector<Part> held = placement.parts(device);
    if (held.empty()) continue;
    // From the digits of the first element to those of the last.
    Box box;
    for (std::size_t i = 0; i < view.size(); ++i) {
      std::int64_t stride = product(view[i]);
      for (const std::int64_t size : view[i]) {
        stride /= size;
        box.lo.push_back(held.front().box.lo[i] / stride % size);
        box.hi.push_back((held.back().box.hi[i] - 1) / stride % size + 1);
      }
    }
    for (std::size_t i = 0; i < box.lo.size(); ++i) {
      if (box.lo[i] >= box.hi[i]) return std::nullopt;
    }
    parts[static_cast<std::size_t>(device)] = {packed_part(std::move(box))};
  }
  Placement seen(shape, std::move(parts));
  if (!(without_view(seen, view) == placement)) return std::nullopt;
  return seen;
}

}  // namespace retile
