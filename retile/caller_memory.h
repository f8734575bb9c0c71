// Memory that callers own: how tiles lie in it, and whether it has room for them.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "retile/base/sentences.h"
#include "retile/redistribute.h"

namespace retile {

// The layout of each device's tile: one for all, or one for each. Throws RuntimeError where there are other than that.
std::vector<MemoryLayout> spread(const std::vector<MemoryLayout>& layouts, std::size_t devices, const char* side);

std::vector<Strides> strides_in(const std::vector<MemoryLayout>& layouts);

// The memory that the devices' tiles reach. `strides` come from require_strides(). Throws RuntimeError where a tile
// begins outside of its memory.
std::vector<TileRoom> rooms_of(const std::vector<MemoryLayout>& layouts, const std::vector<Strides>& strides,
                               const Placement& placement, const std::vector<Device>& devices,
                               std::int64_t element_size);

// Lets packed sources be their devices' targets where a run refreshes ghost zones. A refresh in one step reads the
// insides of tiles alone, and each is already where it goes, so it is not written either: processes need not wait for
// each other's reads. Not for plans of several steps, nor for sources that are given away.
void allow_refresh(const Layout& source, const Layout& target, std::vector<TileRoom>& sources);

// Tiles are known by numbers, and named where something is wrong with them.
class RoomCheck {
 public:
  using TileName = std::function<std::string(std::size_t tile, bool is_target)>;

  explicit RoomCheck(TileName name) : name_(std::move(name)) {}

  // A tile without elements may have no memory. Where a source may be the target, it is added right before it.
  void add_source(std::size_t tile, std::span<const std::byte> memory, const TileRoom& room) {
    add(tile, memory, room, false);
  }
  void add_target(std::size_t tile, std::span<const std::byte> memory, const TileRoom& room) {
    add(tile, memory, room, true);
  }
  // Other faults of the memory.
  void add_fault(const std::string& sentence) { faults_.add(sentence); }
  // Throws RuntimeError with all that is wrong: memory that is null or too short for its tile, and packed targets that
  // share memory with another packed tile.
  void require_room();

 private:
  struct Range {
    const std::byte* begin;
    const std::byte* end;
    std::size_t tile;
    bool is_target;
    bool may_be_target;
  };

  void add(std::size_t tile, std::span<const std::byte> memory, const TileRoom& room, bool is_target);
  void find_overlaps();

  const TileName name_;
  std::vector<Range> packed_;
  Sentences faults_;
};

}  // namespace retile
