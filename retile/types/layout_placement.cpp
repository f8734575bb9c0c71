// The placements of layouts: what each device of a world holds.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/types/held_runs.h"
#include "retile/types/layout.h"

namespace retile {
namespace {

// --- Intervals along one dimension.

// The interval of a factor that a device holds, and the factor's size.
struct HeldFactor {
  std::int64_t size = 1;
  Interval held;
};

// The elements of a dimension that a device holds, from what it holds of each factor (major to minor): runs of
// neighbouring elements, ascending.
std::vector<Interval> held_intervals(const std::vector<HeldFactor>& factors) {
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

std::vector<Interval> held_blocks(const Factor& factor, std::int64_t coordinate) {
  const std::int64_t count = tile_count(factor.axes);
  std::vector<Interval> blocks;
  // A whole round may be longer than the dimension, and may overflow 63 bits: so count in blocks.
  const std::int64_t last = (factor.size - 1) / factor.block;
  for (std::int64_t block = (coordinate - factor.first + count) % count; block <= last; block += count) {
    const std::int64_t begin = block * factor.block;
    blocks.push_back({begin, begin + std::min(factor.block, factor.size - begin)});
  }
  return blocks;
}

Interval tile_of(const Factor& factor, UnevenRule rule, std::int64_t coordinate) {
  if (factor.tiles.empty()) return cut_interval(factor.size, factor.axes, rule, coordinate);
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < coordinate; ++i) begin += factor.tiles[static_cast<std::size_t>(i)];
  return {begin, begin + factor.tiles[static_cast<std::size_t>(coordinate)]};
}

std::vector<Interval> held_intervals(const MeshLayout& layout, const std::vector<Factor>& factors, Device device) {
  std::vector<HeldFactor> held;
  for (const Factor& factor : factors) {
    const std::int64_t coordinate = coordinate_along(layout.mesh, factor.axes, device);
    if (factor.block > 0) return held_blocks(factor, coordinate);
    held.push_back({factor.size, tile_of(factor, layout.rule, coordinate)});
  }
  return held_intervals(held);
}

// By dimension, without ghost zones; none of them empty.
std::vector<std::vector<Interval>> held_intervals(const MeshLayout& layout, Device index) {
  std::vector<std::vector<Interval>> held;
  for (const std::vector<Factor>& factors : layout.view) {
    held.push_back(held_intervals(layout, factors, index));
    std::erase_if(held.back(), [](Interval one) { return one.size() == 0; });
  }
  return held;
}

// --- Ghost zones, and arrays that go on beyond their ends.

// The length of a tile with its ghost zones, which are clipped at the array's ends or wrapped round.
std::int64_t size_with_halo(const Interval& tile, const Halo& halo, std::int64_t size) {
  if (tile.size() == 0) return 0;
  const Interval grown{tile.lo - halo.before, tile.hi + halo.after};
  return halo.wraps ? grown.size() : intersect(grown, {0, size}).size();
}

// One tile with its ghost zones.
std::vector<HeldRun> runs_with_halo(const Interval& tile, const Halo& halo, std::int64_t size) {
  const Interval grown{tile.lo - halo.before, tile.hi + halo.after};
  if (!halo.wraps) return joined_runs({intersect(grown, {0, size})});
  return joined_runs({{grown.lo + size, std::min(size, grown.hi + size)},
                      intersect(grown, {0, size}),
                      {std::max<std::int64_t>(0, grown.lo - size), grown.hi - size}});
}

// The runs, and their repetitions where the array continues beyond its ends.
std::vector<HeldRun> runs_again(const std::vector<HeldRun>& runs, const Halo& margin, std::int64_t size) {
  std::vector<HeldRun> again;
  for (const std::int64_t shift : {margin.before - size, margin.before, margin.before + size}) {
    for (const HeldRun& run : runs) {
      const Interval moved{run.interval.lo + shift, run.interval.hi + shift};
      const Interval inside = intersect(moved, {0, size + margin.before + margin.after});
      if (inside.size() > 0) again.push_back({inside, run.start + (inside.lo - moved.lo) * run.step, run.step});
    }
  }
  return again;
}

// A tile without its ghost zones, where it lies among them.
HeldRun run_inside(const Interval& tile, const Halo& halo) {
  return {tile, halo.wraps ? halo.before : std::min(halo.before, tile.lo), 1};
}

// Adds a dimension to a device's own array. `margin` is null where the array does not continue beyond its ends.
// Ghost zones that are left out have memory all the same.
void add_dimension(LocalArray& array, const std::vector<Interval>& held, const Halo& halo, const Halo* margin,
                   std::int64_t size, bool has_ghosts) {
  const bool is_grown = !held.empty() && (halo.before > 0 || halo.after > 0);
  std::vector<HeldRun> runs = is_grown ? runs_with_halo(held.front(), halo, size) : joined_runs(held);
  std::int64_t length = 0;
  for (const HeldRun& run : runs) length += run.interval.size();
  if (is_grown && !has_ghosts) runs = {run_inside(held.front(), halo)};
  if (margin != nullptr && is_grown && has_ghosts) {
    const std::int64_t begin = held.front().lo - halo.before + margin->before;
    runs = {{{begin, begin + length}, 0, 1}};
  } else if (margin != nullptr) {
    runs = runs_again(runs, *margin, size);
  }
  array.runs.push_back(std::move(runs));
  array.shape.push_back(length);
}

// A device's own array, from what it holds of each dimension of an array of this shape without ghost zones.
LocalArray own_array(const Shape& shape, const std::vector<std::vector<Interval>>& held, const std::vector<Halo>& halo,
                     const std::vector<Halo>& margins, bool has_ghosts, std::int64_t offset) {
  LocalArray array{{}, {}, offset};
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const bool goes_on = !margins.empty() && margins[i].wraps;
    add_dimension(array, held[i], halo.empty() ? Halo{} : halo[i], goes_on ? &margins[i] : nullptr, shape[i],
                  has_ghosts);
  }
  return array;
}

class Placer {
 public:
  Placer(Shape shape, std::int64_t world, const std::vector<Halo>& halo, const std::vector<int>& order,
         const MovedArray& array, bool has_ghosts)
      : shape_(std::move(shape)),
        halo_(halo),
        order_(order),
        array_(array),
        has_ghosts_(has_ghosts || halo.empty()),
        parts_(static_cast<std::size_t>(world)),
        sizes_(has_ghosts_ ? 0 : static_cast<std::size_t>(world)) {}

  // Adds the parts of a device's own array, from what it holds of each dimension without ghost zones. `offset` is where
  // the array begins in the device's memory.
  void add(Device device, const std::vector<std::vector<Interval>>& held, std::int64_t offset) {
    const LocalArray array = own_array(shape_, held, halo_, array_.margins, has_ghosts_, offset);
    const auto place = static_cast<std::size_t>(device);
    for (Part& part : parts_of(array, order_, array_.view)) parts_[place].push_back(std::move(part));
    if (!has_ghosts_) sizes_[place] = product(array.shape);
  }

  // The placement of all that was added.
  Placement take() {
    Shape shape;
    MemoryDimensions memory{{}, order_};
    for (std::size_t i = 0; i < shape_.size(); ++i) {
      const bool goes_on = !array_.margins.empty() && array_.margins[i].wraps;
      const Shape whole{shape_[i] + (goes_on ? array_.margins[i].before + array_.margins[i].after : 0)};
      const Shape& factors = array_.view.empty() ? whole : array_.view[i];
      shape.insert(shape.end(), factors.begin(), factors.end());
      memory.stepped.insert(memory.stepped.end(), factors.size(), i);
    }
    return {shape, std::move(parts_), std::move(memory), std::move(sizes_)};
  }

 private:
  const Shape shape_;
  const std::vector<Halo>& halo_;
  const std::vector<int>& order_;
  const MovedArray& array_;
  const bool has_ghosts_;
  std::vector<std::vector<Part>> parts_;  // by device
  std::vector<std::int64_t> sizes_;       // of the devices' memory, where ghost zones are left out
};

Placement placement_of(const BoxLayout& layout, std::int64_t world, const MovedArray& array, bool has_ghosts) {
  Placer placer(layout.shape, world, layout.halo, layout.order, array, has_ghosts);
  for (std::size_t device = 0; device < layout.boxes.size(); ++device) {
    std::int64_t offset = 0;
    for (const Box& box : layout.boxes[device]) {
      if (volume(box) == 0) continue;
      std::vector<std::vector<Interval>> held;
      for (std::size_t i = 0; i < box.lo.size(); ++i) held.push_back({{box.lo[i], box.hi[i]}});
      placer.add(static_cast<Device>(device), held, std::exchange(offset, offset + volume(box)));
    }
  }
  return placer.take();
}

Placement placement_of(const MeshLayout& layout, const Shape& shape, std::int64_t world, const MovedArray& array,
                       bool has_ghosts) {
  Placer placer(shape, world, layout.halo, layout.order, array, has_ghosts);
  for (Device index = 0; index < layout.mesh.device_count(); ++index) {
    const std::vector<std::vector<Interval>> held = held_intervals(layout, index);
    const Device device = layout.devices.empty() ? index : layout.devices[static_cast<std::size_t>(index)];
    placer.add(device, held, 0);
  }
  return placer.take();
}

// The most elements that a device holds of a dimension, ghost zones included.
std::int64_t most_held(const MeshLayout& layout, std::size_t dimension) {
  const std::vector<Factor>& factors = layout.view[dimension];
  std::int64_t most = 1;
  for (const Factor& factor : factors) most *= most_held(factor, layout.rule);
  if (layout.halo.empty()) return most;
  for (std::int64_t i = 0; i < tile_count(factors[0].axes) && factors.size() == 1 && factors[0].block == 0; ++i) {
    const Interval tile = tile_of(factors[0], layout.rule, i);
    most = std::max(most, size_with_halo(tile, layout.halo[dimension], factors[0].size));
  }
  return most;
}

// The shape of a device's own array, its dimensions as those of the whole array.
Shape local_shape_of(const MeshLayout& layout, Device device) {
  Shape shape(layout.view.size());
  const auto found = std::find(layout.devices.begin(), layout.devices.end(), device);
  const Device index = layout.devices.empty() ? device : static_cast<Device>(found - layout.devices.begin());
  if (index < 0 || index >= layout.mesh.device_count()) return shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::vector<Factor>& factors = layout.view[i];
    shape[i] = 1;
    for (const Factor& factor : factors) {
      shape[i] *= held_size(factor, layout.rule, coordinate_along(layout.mesh, factor.axes, index));
    }
    if (layout.halo.empty() || factors.size() > 1 || factors[0].block > 0) continue;
    const Interval tile = tile_of(factors[0], layout.rule, coordinate_along(layout.mesh, factors[0].axes, index));
    shape[i] = size_with_halo(tile, layout.halo[i], factors[0].size);
  }
  return shape;
}

// As above. Several boxes lie one after the other: the shape has one dimension, of all their elements.
Shape local_shape_of(const BoxLayout& layout, Device device) {
  Shape shape(layout.shape.size());
  if (device < 0 || device >= static_cast<std::int64_t>(layout.boxes.size())) return shape;
  std::vector<Box> boxes = layout.boxes[static_cast<std::size_t>(device)];
  std::erase_if(boxes, [](const Box& box) { return volume(box) == 0; });
  if (boxes.size() > 1) {
    std::int64_t elements = 0;
    for (const Box& box : boxes) elements += volume(box);
    return {elements};
  }
  for (std::size_t i = 0; i < shape.size() && !boxes.empty(); ++i) {
    const Halo halo = layout.halo.empty() ? Halo{} : layout.halo[i];
    shape[i] = size_with_halo({boxes[0].lo[i], boxes[0].hi[i]}, halo, layout.shape[i]);
  }
  return shape;
}

}  // namespace

std::int64_t Layout::local_size() const {
  if (const DistributedType* even = type()) return even->local_size();
  if (const BoxLayout* boxes = listed()) return placement_of(*boxes, device_count(), {}, true).local_size();
  const auto& layout = std::get<MeshLayout>(form_);
  std::int64_t largest = 1;
  for (std::size_t i = 0; i < layout.view.size(); ++i) largest *= most_held(layout, i);
  return largest;
}

Shape Layout::local_shape(Device device) const {
  const BoxLayout* boxes = listed();
  Shape shape = boxes != nullptr ? local_shape_of(*boxes, device) : local_shape_of(*cuts(), device);
  if (order().empty() || shape.size() != order().size()) return shape;
  Shape in_memory;
  for (const int dimension : order()) in_memory.push_back(shape[static_cast<std::size_t>(dimension)]);
  return in_memory;
}

Placement Layout::placement(std::int64_t world) const { return placement(world, {}); }

Placement Layout::placement(std::int64_t world, const MovedArray& array) const {
  return placement(world, array, Ghosts::included);
}

Placement Layout::inside(std::int64_t world, const MovedArray& array) const {
  return placement(world, array, Ghosts::left_out);
}

Placement Layout::placement(std::int64_t world, const MovedArray& array, Ghosts ghosts) const {
  ensure(world >= device_count(), "the layout's devices are in the world");
  if (is_partial()) return stacked().placement(world, array, ghosts);
  const bool is_own = array.margins.empty() && array.view.empty();
  if (type() != nullptr && world == device_count() && is_own) return Placement(*type());
  if (world > most_listed_world) {
    throw InputError(fmt::format("{} devices are too many to list what they hold", world),
                     fmt::format("beyond types of one mesh, worlds have up to {} devices", most_listed_world));
  }
  const bool has_ghosts = ghosts == Ghosts::included;
  if (const BoxLayout* boxes = listed()) return placement_of(*boxes, world, array, has_ghosts);
  return placement_of(*cuts(), global_shape(), world, array, has_ghosts);
}

LocalArray local_array(const MeshLayout& layout, Device index, const std::vector<Halo>& margins, bool has_ghosts) {
  return own_array(global_shape(layout.view), held_intervals(layout, index), layout.halo, margins,
                   has_ghosts || layout.halo.empty(), 0);
}

MovedArray moved_array(const Layout& target, std::vector<Shape> view) {
  MovedArray array{target.halo(), std::move(view)};
  const bool wraps = std::any_of(array.margins.begin(), array.margins.end(), [](const Halo& one) { return one.wraps; });
  if (!wraps) array.margins.clear();
  return array;
}

namespace {

// Whether every tile has the whole dimension.
bool is_whole(const Layout& layout, std::size_t dimension) {
  const std::int64_t size = layout.global_shape()[dimension];
  if (const BoxLayout* listed = layout.listed()) {
    return std::any_of(listed->boxes.begin(), listed->boxes.end(), [&](const std::vector<Box>& boxes) {
      return !boxes.empty() && boxes[0].hi[dimension] - boxes[0].lo[dimension] == size;
    });
  }
  const MeshLayout cuts = *layout.cuts();
  return cuts.view[dimension].size() == 1 && most_held(cuts.view[dimension][0], cuts.rule) == size;
}

Layout with_halo(const Layout& layout, std::vector<Halo> halo) {
  if (const BoxLayout* listed = layout.listed()) {
    BoxLayout boxes = *listed;
    boxes.halo = std::move(halo);
    return Layout(std::move(boxes));
  }
  MeshLayout cuts = *layout.cuts();
  cuts.halo = std::move(halo);
  return Layout(std::move(cuts));
}

}  // namespace

DistinctEnds distinct_ends(const Layout& source, const Layout& target, std::int64_t world, std::vector<Shape> view) {
  std::vector<Halo> halo = target.halo();
  bool has_repeats = false;
  for (std::size_t i = 0; i < halo.size(); ++i) {
    if (!halo[i].wraps || !is_whole(target, i)) continue;
    halo[i] = {};
    if (!view.empty()) view[i] = {target.global_shape()[i]};
    has_repeats = true;
  }
  const Layout distinct = has_repeats ? with_halo(target, std::move(halo)) : target;
  const MovedArray array = moved_array(distinct, std::move(view));
  return {source.inside(world, array), distinct.placement(world, array)};
}

}  // namespace retile
