// The memory of a run: the bytes of tiles and staging that a device holds at once (docs/memory.md). Computed from local
// sizes alone, in time that does not depend on the number of devices. Planners, engines, limits and reports all use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "retile/base/list.h"
#include "retile/plan/plan.h"

namespace retile {

// What becomes of the tiles that a run starts from.
enum class TileUse {
  kept,          // the owner keeps them, and also has memory for the target's tiles
  kept_strided,  // likewise, but the run may not write to the gaps between the elements of the target's tiles
  donated,       // they are released as the run goes
};

// The memory that an engine takes beside the tiles of source and target.
struct EngineMemory {
  enum class Between {
    in_target,   // tiles between source and target lie in the target's memory, if that is kept and they fit
    in_scratch,  // tiles between source and target never lie there
    every_step,  // slices are copies too, and kept tiles are copied first: nothing is shared
  };
  Between between = Between::in_target;
  std::int64_t staging = 0;  // bytes per device, at most

  bool operator==(const EngineMemory&) const = default;
};

constexpr std::int64_t no_memory_limit = std::numeric_limits<std::int64_t>::max();

// The usual limit on the bytes that the lists of pieces of a prepared run take in a process (docs/memory.md). Longer
// lists are not kept: every execution computes pieces anew, which is slower, but a list with every pair of devices may
// need more memory than the tiles.
constexpr std::int64_t usual_listed_bytes = 32 << 20;

// The steps of a stage, which one copy carries out: slices, which only narrow the tiles that are read, and the step
// after them. The tiles from before the slices stay in memory until then.
struct StageSteps {
  std::size_t first = 0;
  std::size_t last = 0;  // a slice only where the movement ends with one
};

std::vector<StageSteps> stage_steps(const std::vector<Step>& steps);

// The number of elements that each device holds: of the source, then after each stage.
class StageSizes {
 public:
  // The sizes at these stops, in order. The placements need not outlive it.
  explicit StageSizes(const std::vector<const Placement*>& stops);

  std::size_t stops() const { return sizes_.size(); }
  std::int64_t of(std::size_t stop, Device device) const {
    return sizes_[stop].size() == 1 ? sizes_[stop].front() : at(sizes_[stop], device);
  }
  // The sizes of one device's tiles.
  std::vector<std::int64_t> of(Device device) const;
  // Number of devices to inspect: 1 if all hold equally much.
  Device distinct_devices() const { return distinct_; }

 private:
  std::vector<std::vector<std::int64_t>> sizes_;  // by stop and device; one entry where all devices hold equally much
  Device distinct_ = 1;
};

StageSizes stage_sizes(const Movement& movement);

// Where tiles lie in a run that keeps its tiles. Stages alternate between two places: a tile an even number of stages
// before the target lies in the target's memory, if that is allowed and it fits; every other tile lies in one of two
// scratch buffers.
struct KeptPlaces {
  enum class Place { owner, target, even_scratch, odd_scratch };

  std::vector<Place> places;  // by stop of stage_sizes(), the same for all devices; the source is its owner's

  // The number of elements of a device's scratch buffer of this kind.
  std::int64_t scratch(Place kind, const StageSizes& sizes, Device device) const;
};

KeptPlaces kept_places(const StageSizes& sizes, TileUse use, EngineMemory::Between between);

// The most bytes that a device holds at once. Throws RuntimeError where they do not fit in 63 bits.
std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use,
                                const EngineMemory& engine = {});

}  // namespace retile
