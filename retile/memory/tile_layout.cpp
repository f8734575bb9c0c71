#include "retile/memory/tile_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/memory/tile.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Bytes. Products of a dimension's size and its stride fit in 63 bits then.
constexpr std::int64_t most_reach = std::int64_t{1} << 62U;

// Whether each dimension steps over all that the ones below it reach. `tile` has strides, and its reach fits in 63
// bits.
bool are_apart(const TileLayout& tile, std::int64_t element_size) {
  const DimensionOrder order = order_of(tile);
  std::int64_t below = element_size;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int64_t steps = tile.box.hi[order[i]] - tile.box.lo[order[i]] - 1;
    const std::int64_t stride = std::abs(tile.strides[order[i]]);
    if (steps > 0 && stride < below) return false;
    below += steps * stride;
  }
  return true;
}

enum class Side { source, target };

std::string find_fault(const TileLayout& tile, std::int64_t element_size, Side side) {
  if (!reach_of(tile, element_size)) return "lead beyond 62 bits";
  if (side == Side::target && !are_apart(tile, element_size)) return "put elements into the same memory";
  return "";
}

Strides require_tile(const Strides& given, const Box& box, Device device, Side side, std::int64_t element_size) {
  Strides strides = strides_of(box, element_size);
  if (given.empty()) return strides;
  std::string fault;
  if (given.size() == strides.size()) {
    // What a dimension of one element has for a stride matters to nobody.
    for (std::size_t i = 0; i < strides.size(); ++i) {
      if (box.hi[i] - box.lo[i] > 1) strides[i] = given[i];
    }
    fault = find_fault({box, strides}, element_size, side);
  } else {
    fault = fmt::format("are of {} dimensions instead of {}", given.size(), strides.size());
  }
  if (fault.empty()) return strides;
  throw RuntimeError(fmt::format("the strides {} of device {}'s {} {}", to_string(given), device,
                                 side == Side::source ? "source" : "target", fault));
}

// --- Devices that hold several boxes, all in one array of their own.

// Elements from one to the next along each dimension of the packed array that the parts are in; nothing where they are
// in several.
std::optional<Shape> array_strides(const std::vector<Part>& parts, const MemoryDimensions& memory) {
  std::optional<Shape> common;
  for (const Part& part : parts) {
    Shape strides(part.strides.empty() ? 0 : memory.of(part.strides.size() - 1) + 1);
    for (std::size_t i = 0; i < part.strides.size(); ++i) strides[memory.of(i)] = part.strides[i];  // the innermost
    if (common && *common != strides) return std::nullopt;
    common = std::move(strides);
  }
  return common;
}

DimensionOrder order_of(const MemoryDimensions& memory, std::size_t rank) {
  if (memory.order.empty()) return numbers_below(rank);
  return {memory.order.begin(), memory.order.end()};
}

// The shape of the packed array with these strides.
Box array_box(const Shape& strides, const MemoryDimensions& memory, std::int64_t size) {
  Shape shape(strides.size());
  std::int64_t elements = size;
  for (const std::size_t dimension : order_of(memory, strides.size())) {
    shape[dimension] = elements / strides[dimension];
    elements = strides[dimension];
  }
  return box_at(Shape(shape.size()), shape);
}

Strides require_array(const Strides& given, const Placement& placement, Device device, Side side,
                      std::int64_t element_size) {
  if (given.empty() || placement.size(device) == 0) return packed_strides(placement, device, element_size);
  const std::optional<Shape> strides = array_strides(placement.parts(device), placement.memory_dimensions());
  const char* name = side == Side::source ? "source" : "target";
  if (!strides) {
    throw RuntimeError(
        fmt::format("the boxes of device {}'s {} make up no array: strides cannot be given", device, name));
  }
  for (const std::int64_t stride : given) {
    if (stride > 0 && stride % element_size == 0) continue;
    throw RuntimeError(fmt::format("the strides {} of device {}'s {} are not of whole elements of {} bytes",
                                   to_string(given), device, name, element_size));
  }
  return require_tile(given, array_box(*strides, placement.memory_dimensions(), placement.size(device)), device, side,
                      element_size);
}

std::vector<Strides> require_side(const std::vector<Strides>& strides, const Placement& placement, Side side,
                                  std::span<const Device> devices, std::int64_t element_size) {
  if (strides.empty()) return {};
  if (strides.size() != devices.size()) {
    throw RuntimeError(fmt::format("the run is given strides of {} {} buffers for {} devices", strides.size(),
                                   side == Side::source ? "source" : "target", devices.size()));
  }
  if (std::all_of(strides.begin(), strides.end(), [](const Strides& given) { return given.empty(); })) return {};
  std::vector<Strides> checked;
  bool are_packed = true;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    checked.push_back(placement.has_single_boxes()
                          ? require_tile(strides[i], placement.box(devices[i]), devices[i], side, element_size)
                          : require_array(strides[i], placement, devices[i], side, element_size));
    are_packed = are_packed && checked.back() == packed_strides(placement, devices[i], element_size);
  }
  return are_packed ? std::vector<Strides>() : checked;
}

}  // namespace

TileLayout layout_of(const Part& part, std::int64_t element_size) {
  Strides strides(part.strides);
  for (std::int64_t& stride : strides) stride = checked_bytes(stride, element_size);
  return {part.box, std::move(strides), checked_bytes(part.offset, element_size)};
}

DimensionOrder order_of(const TileLayout& tile) {
  DimensionOrder order = numbers_below(tile.box.lo.size());
  if (tile.strides.empty()) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return std::abs(tile.strides[a]) > std::abs(tile.strides[b]); });
  return order;
}

Strides packed_strides(const Box& box, std::int64_t element_size, const DimensionOrder& order) {
  (void)checked_bytes(volume(box), element_size);
  Strides strides(box.lo.size());
  std::int64_t stride = element_size;
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= box.hi[order[i]] - box.lo[order[i]];
  }
  return strides;
}

Strides strides_of(const TileLayout& tile, std::int64_t element_size) {
  if (!tile.strides.empty()) return tile.strides;
  return packed_strides(tile.box, element_size, numbers_below(tile.box.lo.size()));
}

std::optional<Reach> reach_of(const TileLayout& tile, std::int64_t element_size) {
  if (volume(tile.box) == 0) return Reach{0, 0};
  const Strides strides = strides_of(tile, element_size);
  Reach reach{0, element_size};
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const auto way = checked_multiply(tile.box.hi[i] - tile.box.lo[i] - 1, strides[i]);
    if (!way) return std::nullopt;
    std::int64_t& end = *way < 0 ? reach.begin : reach.end;
    const auto farther = checked_add(end, *way);
    if (!farther) return std::nullopt;
    end = *farther;
  }
  const auto length = checked_add(reach.end, -(reach.begin + 1));
  return length && *length < most_reach ? std::optional(reach) : std::nullopt;
}

Strides packed_strides(const Placement& placement, Device device, std::int64_t element_size) {
  if (placement.has_single_boxes()) return strides_of(placement.box(device), element_size);
  const MemoryDimensions& memory = placement.memory_dimensions();
  const std::vector<Part> parts = placement.parts(device);
  Shape strides = parts.empty() ? Shape() : array_strides(parts, memory).value_or(Shape());
  const auto rank = static_cast<std::size_t>(placement.rank());
  strides.resize(rank == 0 ? 0 : memory.of(rank - 1) + 1, 1);
  for (std::int64_t& stride : strides) stride = checked_bytes(stride, element_size);
  return strides;
}

Part laid_out(Part part, const MemoryDimensions& memory, const Strides& strides, std::int64_t element_size) {
  const std::optional<Shape> packed = array_strides({part}, memory);
  std::int64_t left = std::exchange(part.offset, 0);
  for (const std::size_t dimension : order_of(memory, packed->size())) {
    part.offset += left / (*packed)[dimension] * (strides[dimension] / element_size);
    left %= (*packed)[dimension];
  }
  for (std::size_t i = 0; i < part.strides.size(); ++i) {
    const std::size_t dimension = memory.of(i);
    part.strides[i] = part.strides[i] / (*packed)[dimension] * (strides[dimension] / element_size);
  }
  return part;
}

Placement laid_out(const Placement& placement, const std::vector<Strides>& strides, std::int64_t element_size) {
  if (strides.empty() || placement.has_single_boxes()) return placement;
  std::vector<std::vector<Part>> parts;
  for (Device device = 0; device < placement.device_count(); ++device) {
    std::vector<Part>& held = parts.emplace_back(placement.parts(device));
    const Strides& given = strides[static_cast<std::size_t>(device)];
    for (Part& part : held) {
      if (!given.empty()) part = laid_out(std::move(part), placement.memory_dimensions(), given, element_size);
    }
  }
  return {placement.global_shape(), std::move(parts), placement.memory_dimensions()};
}

std::vector<Strides> strides_in_view(std::vector<Strides> strides, const std::vector<Shape>& view,
                                     const Placement& placement, std::span<const Device> devices) {
  if (view.empty() || !placement.has_single_boxes()) return strides;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides[i].empty() || strides[i].size() != view.size()) continue;
    const Box box = placement.box(devices[i]);
    Strides finer(box.lo.size());
    std::size_t end = 0;  // of the dimension's factors
    for (std::size_t dimension = 0; dimension < view.size(); ++dimension) {
      end += view[dimension].size();
      std::int64_t stride = strides[i][dimension];
      for (std::size_t factor = end; factor-- > end - view[dimension].size();) {
        finer[factor] = stride;
        stride *= box.hi[factor] - box.lo[factor];
      }
    }
    strides[i] = std::move(finer);
  }
  return strides;
}

BufferStrides require_strides(const BufferStrides& strides, const Placement& source, const Placement& target,
                              std::span<const Device> devices, std::int64_t element_size) {
  return {require_side(strides.sources, source, Side::source, devices, element_size),
          require_side(strides.targets, target, Side::target, devices, element_size)};
}

}  // namespace retile
