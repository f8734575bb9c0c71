#include "retile/memory/tile_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

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

std::vector<Strides> require_side(const std::vector<Strides>& strides, const Placement& placement, Side side,
                                  std::span<const Device> devices, std::int64_t element_size) {
  if (strides.empty()) return {};
  if (!placement.has_single_boxes()) {
    throw RuntimeError("where a device holds several boxes, they lie without gaps: strides cannot be given");
  }
  if (strides.size() != devices.size()) {
    throw RuntimeError(fmt::format("the run is given strides of {} {} buffers for {} devices", strides.size(),
                                   side == Side::source ? "source" : "target", devices.size()));
  }
  std::vector<Strides> checked;
  bool are_packed = true;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Box box = placement.box(devices[i]);
    checked.push_back(require_tile(strides[i], box, devices[i], side, element_size));
    are_packed = are_packed && checked.back() == strides_of(box, element_size);
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

std::vector<Strides> strides_in_view(std::vector<Strides> strides, const std::vector<Shape>& view,
                                     const Placement& placement, std::span<const Device> devices) {
  if (view.empty()) return strides;
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
