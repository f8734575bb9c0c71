// Tiles of made-up arrays, for transfers to move and for runs to check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/engine.h"
#include "retile/memory/buffer.h"
#include "retile/transfer/joined_tiles.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// Sources of elements that are not made up, and destinations of results. Called by several threads, for tiles
// in memory of the host; functions may be absent.
struct ArrayContents {
  // Fills parts of an array, which is one of the manifest's, into a tile. False where the array is made up.
  std::function<bool(std::size_t array, const std::vector<Part>& parts, std::byte* tile)> read = {};
  // Takes parts of an array from a target's tile.
  std::function<void(std::size_t array, const std::vector<Part>& parts, const std::byte* tile)> write = {};
};

// The source and target tiles of this process's devices, by array, then by device. The plan outlives them.
class MadeTiles {
 public:
  using Allocate = std::function<Buffer(std::size_t bytes, Engine::Pages pages)>;

  // The engine, which outlives them, makes tiles at once if it can. Those in memory of a device are joined.
  MadeTiles(const TransferPlan& plan, std::vector<Device> devices, std::uint64_t seed, Engine& engine,
            const Allocate& allocate, ArrayContents contents = {});

  // Nothing has written to the targets yet.
  const std::vector<Buffer>& source_buffers() const { return sources_; }
  // Bytes that were allocated for each device of this process, for single tiles or for joined ones.
  const std::vector<Buffer>& source_memory() const { return source_memory_.empty() ? sources_ : source_memory_; }
  const std::vector<Buffer>& target_memory() const { return target_memory_.empty() ? targets_ : target_memory_; }
  const std::vector<const std::byte*>& sources() const { return from_; }
  const std::vector<std::byte*>& targets() const { return to_; }
  // By device of this process.
  const std::vector<std::int64_t>& bytes() const { return used_; }

  void clear_targets();
  // The first element of a target that is not the array's.
  std::optional<std::string> difference() const;
  // Hands targets on.
  void write_targets() const;

 private:
  struct TilePlace {
    std::size_t array;
    std::size_t problem;
    Device device;
  };
  TilePlace place_of(std::size_t tile) const;
  MadeArray made(std::size_t array) const;
  // Calls visit(place, elements in the host's memory) for all target tiles.
  void for_each_target(const std::function<void(std::size_t tile, const std::byte* elements)>& visit) const;
  // The tiles of one side, in `memory` where they are joined.
  std::vector<Buffer> make_side(PageUse side, const Allocate& allocate, std::vector<Buffer>& memory);

  const TransferPlan& plan_;
  const std::vector<Device> devices_;
  const std::uint64_t seed_;
  Engine& engine_;
  const ArrayContents contents_;
  std::vector<Placement> sources_held_;  // by problem, as boxes of its array
  std::vector<Placement> targets_held_;
  std::vector<std::int64_t> used_;     // by slot
  std::vector<Buffer> source_memory_;  // joined tiles by device
  std::vector<Buffer> target_memory_;
  std::vector<Buffer> sources_;
  std::vector<Buffer> targets_;
  std::vector<const std::byte*> from_;
  std::vector<std::byte*> to_;
};

}  // namespace retile::transfer
