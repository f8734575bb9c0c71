#include "retile/redistribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/engines/threads/threads.h"
#include "retile/pipeline.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// The layout of each device's tile.
std::vector<MemoryLayout> spread(const std::vector<MemoryLayout>& layouts, std::size_t devices, const char* side) {
  if (layouts.size() == devices) return layouts;
  if (layouts.size() > 1) {
    throw RuntimeError(fmt::format("there are layouts of {} {}s for {} devices", layouts.size(), side, devices));
  }
  return {devices, layouts.empty() ? MemoryLayout() : layouts.front()};
}

std::vector<Strides> strides_in(const std::vector<MemoryLayout>& layouts) {
  std::vector<Strides> strides;
  for (const MemoryLayout& layout : layouts) strides.push_back(layout.strides);
  return strides;
}

// A packed tile.
struct Range {
  const std::byte* begin;
  const std::byte* end;
  Device device;
  bool is_target;
};

std::string tile_name(Device device, bool is_target) {
  return fmt::format("the {} of device {}", is_target ? "target" : "source", device);
}

// Throws RuntimeError where a target shares memory with another tile.
void require_apart(std::vector<Range> ranges) {
  const std::less<> is_less;
  std::sort(ranges.begin(), ranges.end(), [&](const Range& a, const Range& b) { return is_less(a.begin, b.begin); });
  const Range* farthest = nullptr;  // of those before, the one that ends last
  const Range* farthest_target = nullptr;
  for (const Range& range : ranges) {
    const Range* other = range.is_target ? farthest : farthest_target;
    if (other != nullptr && is_less(range.begin, other->end)) {
      throw RuntimeError(fmt::format("{} overlaps {}", tile_name(range.device, range.is_target),
                                     tile_name(other->device, other->is_target)));
    }
    if (farthest == nullptr || is_less(farthest->end, range.end)) farthest = &range;
    if (range.is_target) farthest_target = &range;
  }
}

}  // namespace

MemoryLayout layout_within(const Shape& allocated, const Shape& corner, std::int64_t element_size, MemoryOrder order) {
  const bool fits = allocated.size() == corner.size() && checked_product(allocated).has_value();
  for (std::size_t i = 0; i < allocated.size(); ++i) {
    if (fits && corner[i] >= 0 && corner[i] < allocated[i]) continue;
    throw RuntimeError(
        fmt::format("a tile cannot start at {} of an array of {}", to_string(corner), to_string(allocated)));
  }
  DimensionOrder dimensions = order_of(box_at(corner, allocated));
  if (order == MemoryOrder::column_major) std::reverse(dimensions.begin(), dimensions.end());
  MemoryLayout layout{0, packed_strides(box_at(Shape(corner.size()), allocated), element_size, dimensions)};
  for (std::size_t i = 0; i < corner.size(); ++i) layout.offset += corner[i] * layout.strides[i];
  return layout;
}

const Problem& require_element_type(const Problem& problem, bool stands_for_it, std::size_t size) {
  if (stands_for_it) return problem;
  throw RuntimeError(fmt::format("the problem's elements are {}, which the type of the buffers, of {} bytes, is not",
                                 name_of(problem.element_type()), size));
}

ByteRedistribution::ByteRedistribution(const Plan& plan, std::int64_t element_size,
                                       const RedistributeOptions& options) {
  if (element_size < 1) throw RuntimeError(fmt::format("elements cannot have {} bytes", element_size));
  require_right(plan);
  const std::unique_ptr<Engine> threads = options.engine == nullptr ? make_threads_engine() : nullptr;
  Engine& engine = options.engine == nullptr ? *threads : *options.engine;
  const Movement& movement = plan.movement;
  devices_ = engine.devices(plan.device_count());
  BufferStrides strides;
  std::optional<RuntimeError> fault;
  try {
    const std::vector<MemoryLayout> sources = spread(options.sources, devices_.size(), "source");
    const std::vector<MemoryLayout> targets = spread(options.targets, devices_.size(), "target");
    const BufferStrides given{strides_in_view(strides_in(sources), plan.view, movement.source, devices_),
                              strides_in_view(strides_in(targets), plan.view, movement.target(), devices_)};
    strides = require_strides(given, movement.source, movement.target(), devices_, element_size);
    source_rooms_ = rooms_of(sources, strides.sources, movement.source, devices_, element_size);
    target_rooms_ = rooms_of(targets, strides.targets, movement.target(), devices_, element_size);
  } catch (const RuntimeError& error) {
    fault = error;
    strides.sources.resize(devices_.size() + 1);  // which all processes refuse
  }
  try {
    run_ = engine.prepare(movement, element_size, strides);
  } catch (const RuntimeError&) {
    if (!fault) throw;
  }
  if (fault) throw *fault;
}

ByteRedistribution::ByteRedistribution(const Problem& problem, const RedistributeOptions& options)
    : ByteRedistribution(make_plan(problem), bytes_of(problem.element_type()), options) {}

std::vector<ByteRedistribution::Room> ByteRedistribution::rooms_of(const std::vector<MemoryLayout>& layouts,
                                                                   const std::vector<Strides>& strides,
                                                                   const Placement& placement,
                                                                   const std::vector<Device>& devices,
                                                                   std::int64_t element_size) {
  std::vector<Room> rooms;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const bool is_single = placement.has_single_boxes();
    const TileLayout tile(is_single ? placement.box(devices[i]) : Box{}, strides.empty() ? Strides() : strides[i]);
    std::optional<Reach> reach = Reach{0, checked_bytes(placement.size(devices[i]), element_size)};
    if (is_single) reach = reach_of(tile, element_size);
    const auto begin = reach ? checked_add(layouts[i].offset, reach->begin) : std::nullopt;
    const auto end = reach ? checked_add(layouts[i].offset, reach->end) : std::nullopt;
    if (!begin || *begin < 0 || !end) {
      throw RuntimeError(
          fmt::format("device {}'s tile of {} begins outside of its memory: its first element is at byte {}",
                      devices[i], to_string(tile.box), layouts[i].offset));
    }
    rooms.push_back({layouts[i].offset, *end, strides.empty()});
  }
  return rooms;
}

void ByteRedistribution::require_memory(std::span<const std::span<const std::byte>> sources,
                                        std::span<const std::span<std::byte>> targets) const {
  if (sources.size() != devices_.size() || targets.size() != devices_.size()) {
    throw RuntimeError(fmt::format("there are {} sources and {} targets for {} devices", sources.size(), targets.size(),
                                   devices_.size()));
  }
  std::vector<Range> packed;
  const auto require_room = [&](std::span<const std::byte> memory, const Room& room, Device device, bool is_target) {
    const auto bytes = static_cast<std::int64_t>(memory.size());
    if (bytes < room.end) {
      throw RuntimeError(fmt::format("{} has {} bytes of memory, and its tile takes {}", tile_name(device, is_target),
                                     bytes, room.end));
    }
    if (room.is_packed) packed.push_back({memory.data() + room.first, memory.data() + room.end, device, is_target});
  };
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    require_room(sources[i], source_rooms_[i], devices_[i], false);
    require_room(targets[i], target_rooms_[i], devices_[i], true);
  }
  require_apart(std::move(packed));
}

EngineStatistics ByteRedistribution::run(std::span<const std::span<const std::byte>> sources,
                                         std::span<const std::span<std::byte>> targets) {
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  try {
    require_memory(sources, targets);
  } catch (const RuntimeError& fault) {
    try {
      run_->execute(from, to);  // no buffers, which all processes refuse
    } catch (const RuntimeError&) {
      throw RuntimeError(fault);
    }
    throw;
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    from.push_back(sources[i].data() + source_rooms_[i].first);
    to.push_back(targets[i].data() + target_rooms_[i].first);
  }
  return run_->execute(from, to);
}

}  // namespace retile
