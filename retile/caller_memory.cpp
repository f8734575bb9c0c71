#include "retile/caller_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/plan/text.h"

namespace retile {
namespace {

// The memory that a device with several boxes reaches. Strides, if given, are right and not negative.
Reach reach_of(const Placement& placement, Device device, const Strides& strides, std::int64_t element_size) {
  if (strides.empty()) return {0, checked_bytes(placement.size(device), element_size)};
  std::int64_t end = 0;
  for (Part& part : placement.parts(device)) {
    part = laid_out(std::move(part), placement.memory_dimensions(), strides, element_size);
    end = std::max(end, end_of(part));
  }
  return {0, checked_bytes(end, element_size)};
}

}  // namespace

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
  const bool are_packed = std::all_of(strides.begin(), strides.end(), [](const Strides& one) { return one.empty(); });
  return are_packed ? std::vector<Strides>() : strides;
}

std::vector<TileRoom> rooms_of(const std::vector<MemoryLayout>& layouts, const std::vector<Strides>& strides,
                               const Placement& placement, const std::vector<Device>& devices,
                               std::int64_t element_size) {
  std::vector<TileRoom> rooms;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const bool is_single = placement.has_single_boxes();
    const TileLayout tile(is_single ? placement.box(devices[i]) : Box{}, strides.empty() ? Strides() : strides[i]);
    const std::optional<Reach> reach =
        is_single ? reach_of(tile, element_size) : reach_of(placement, devices[i], tile.strides, element_size);
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

void allow_refresh(const Layout& source, const Layout& target, std::vector<TileRoom>& sources) {
  if (source.halo().empty() || source != target) return;
  for (TileRoom& room : sources) room.may_be_target = true;
}

void RoomCheck::add(std::size_t tile, std::span<const std::byte> memory, const TileRoom& room, bool is_target) {
  const auto bytes = static_cast<std::int64_t>(memory.size());
  if (bytes < room.end) {
    faults_.add(fmt::format("{} has {} of memory, and its tile takes {}", name_(tile, is_target),
                            count_of(bytes, "byte"), group_digits(room.end)));
  } else if (memory.data() == nullptr && room.end > 0) {
    faults_.add(fmt::format("{} is null, and its tile takes {}", name_(tile, is_target), count_of(room.end, "byte")));
  } else if (room.is_packed) {
    const Range range{memory.data() + room.first, memory.data() + room.end, tile, is_target, room.may_be_target};
    const bool is_one = !packed_.empty() && packed_.back().may_be_target && packed_.back().tile == tile &&
                        packed_.back().begin == range.begin && packed_.back().end == range.end;
    if (is_one) packed_.pop_back();
    packed_.push_back(range);
  }
}

void RoomCheck::require_room() {
  find_overlaps();
  if (!faults_.empty()) throw RuntimeError(faults_.text());
}

void RoomCheck::find_overlaps() {
  const std::less<> is_less;
  std::sort(packed_.begin(), packed_.end(), [&](const Range& a, const Range& b) { return is_less(a.begin, b.begin); });
  const Range* farthest = nullptr;  // of those before, the one that ends last
  const Range* farthest_target = nullptr;
  for (const Range& range : packed_) {
    const Range* other = range.is_target ? farthest : farthest_target;
    if (other != nullptr && is_less(range.begin, other->end)) {
      faults_.add(
          fmt::format("{} overlaps {}", name_(range.tile, range.is_target), name_(other->tile, other->is_target)));
    }
    if (farthest == nullptr || is_less(farthest->end, range.end)) farthest = &range;
    if (range.is_target) farthest_target = &range;
  }
}

}  // namespace retile
