#include "retile/transfer/rank_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "retile/base/error.h"
#include "retile/copies/convert.h"
#include "retile/transfer/message_plan_state.h"

namespace retile::transfer {
namespace {

constexpr std::array sides{TransferSide::source, TransferSide::target};

const char* word(TransferSide side) { return side == TransferSide::source ? "source" : "target"; }

bool has_shared_elements(const Room& room, std::int64_t element_size) {
  const Placement placement(room.box.hi, {{packed_part(room.box)}});
  const std::array<Device, 1> device{0};
  try {
    require_strides({{}, {room.strides}}, placement, placement, device, element_size);
  } catch (const RuntimeError&) {
    return true;
  }
  return false;
}

// A room's bytes, and those between its elements.
struct MemoryRange {
  const std::byte* begin;
  const std::byte* end;
  std::size_t array;
  TransferSide side;
  bool is_packed;
};

MemoryRange range_of(const Room& room, std::size_t array, TransferSide side) {
  const std::int64_t size = bytes_of(room.stored);
  const auto reach = reach_of({room.box, room.strides}, size);
  ensure(reach.has_value(), "memory is within 62 bits");
  return {room.first + reach->begin, room.first + reach->end, array, side,
          reach->end - reach->begin == volume(room.box) * size};
}

// Targets that overlap sources would be read after they were written. Those that overlap each other are told where both
// lie without gaps: boxes of one matrix lie between each other.
bool disturb_each_other(const MemoryRange& a, const MemoryRange& b) {
  if (a.side != b.side) return true;
  return a.side == TransferSide::target && a.is_packed && b.is_packed;
}

}  // namespace

RankMemory::RankMemory(const MessagePlan& plan, Device rank, const std::vector<TileMemory>& memory)
    : plan_(plan), rank_(rank), sources_(plan.state().arrays.size()), targets_(plan.state().arrays.size()) {
  for (const TileMemory& one : memory) add_rooms(one);
  if (faults_.empty()) require_rooms();
  if (faults_.empty()) find_overlaps();
  if (!faults_.empty()) throw RuntimeError(faults_.text());
}

const Room& RankMemory::room_around(std::size_t array, TransferSide side, const Box& box) const {
  const Room* room = find_room(array, side, box);
  ensure(room != nullptr, "pieces lie in memory");
  return *room;
}

const std::string& RankMemory::name_of(std::size_t array) const { return plan_.state().arrays[array].name; }

const std::vector<Room>& RankMemory::rooms(std::size_t array, TransferSide side) const {
  return (side == TransferSide::source ? sources_ : targets_)[array];
}

const Room* RankMemory::find_room(std::size_t array, TransferSide side, const Box& box) const {
  const std::vector<Room>& own = rooms(array, side);
  const auto found = std::find_if(own.begin(), own.end(), [&](const Room& room) { return contains(room.box, box); });
  return found == own.end() ? nullptr : &*found;
}

const std::vector<Part>& RankMemory::parts_of(std::size_t kind, TransferSide side) {
  const auto [found, is_new] = parts_.try_emplace({kind, side});
  const StreamPlan::ArrayClass& ends = plan_.state().streams.classes()[kind];
  if (is_new) found->second = (side == TransferSide::source ? ends.source : ends.target).parts(rank_);
  return found->second;
}

void RankMemory::add_rooms(const TileMemory& memory) {
  const std::size_t kind = plan_.state().arrays[memory.array].kind;
  const ElementType sent = plan_.state().element_types[kind];
  const ElementType stored = memory.stored.value_or(sent);
  const auto fail = [&](std::string_view what) {
    faults_.add(fmt::format("the {} of \"{}\" on rank {} {}", word(memory.side), name_of(memory.array), rank_, what));
  };
  const bool is_scaled = memory.scales != nullptr && sent == ElementType::f8e4m3fn && BlockScales::can_scale(stored);
  const bool is_converted = memory.side == TransferSide::source && (is_scaled || can_convert(stored, sent));
  if (stored != sent && !is_converted) {
    return fail(fmt::format("has elements of {}, which are not converted to {}", retile::name_of(stored),
                            retile::name_of(sent)));
  }
  const std::int64_t size = bytes_of(stored);
  std::vector<Room> added;
  if (memory.box) {
    added.push_back({*memory.box, memory.data, strides_of({*memory.box, memory.strides}, size), stored, memory.scales});
  } else {
    const StreamPlan::ArrayClass& ends = plan_.state().streams.classes()[kind];
    const Placement& placement = memory.side == TransferSide::source ? ends.source : ends.target;
    for (Part part : parts_of(kind, memory.side)) {
      // The inside of a padded array begins where the array's strides say.
      const bool is_laid_out = memory.strides.size() == part.strides.size() && part.offset > 0;
      if (is_laid_out) part = laid_out(std::move(part), placement.memory_dimensions(), memory.strides, size);
      Strides strides = part.strides;
      for (std::int64_t& stride : strides) stride *= size;
      added.push_back({part.box, memory.data + part.offset * size, std::move(strides), stored, memory.scales});
    }
    if (!memory.strides.empty() && added.size() > 1) return fail("is several boxes, which lie without gaps");
    if (!memory.strides.empty() && !added.empty()) added.front().strides = memory.strides;
  }
  for (Room& room : added) {
    if (volume(room.box) == 0) continue;
    if (room.strides.size() != room.box.lo.size()) return fail("has strides of another number of dimensions");
    if (room.first == nullptr) return fail("is null");
    if (memory.side == TransferSide::target && has_shared_elements(room, size)) {
      return fail("has elements that share memory");
    }
    (memory.side == TransferSide::source ? sources_ : targets_)[memory.array].push_back(std::move(room));
  }
}

void RankMemory::require_rooms() {
  for (std::size_t array = 0; array < sources_.size(); ++array) {
    for (const TransferSide side : sides) {
      for (const Part& part : parts_of(plan_.state().arrays[array].kind, side)) {
        if (find_room(array, side, part.box) != nullptr) continue;
        faults_.add(fmt::format("the {} of \"{}\" on rank {} has no memory for {}", word(side), name_of(array), rank_,
                                to_string(part.box)));
        break;
      }
    }
  }
}

void RankMemory::find_overlaps() {
  std::vector<MemoryRange> ranges;
  for (const TransferSide side : sides) {
    for (std::size_t array = 0; array < sources_.size(); ++array) {
      for (const Room& room : rooms(array, side)) ranges.push_back(range_of(room, array, side));
    }
  }
  std::sort(ranges.begin(), ranges.end(), [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  std::vector<const MemoryRange*> open;  // those that reach beyond the last one's beginning
  for (const MemoryRange& range : ranges) {
    std::erase_if(open, [&](const MemoryRange* one) { return one->end <= range.begin; });
    const auto other =
        std::find_if(open.begin(), open.end(), [&](const MemoryRange* one) { return disturb_each_other(*one, range); });
    if (other != open.end()) {
      faults_.add(fmt::format("the {} of \"{}\" on rank {} overlaps the {} of \"{}\"", word(range.side),
                              name_of(range.array), rank_, word((*other)->side), name_of((*other)->array)));
    }
    open.push_back(&range);
  }
}

}  // namespace retile::transfer
