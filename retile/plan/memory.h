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

// The fate of the tiles that a run starts from.
enum class TileUse {
  kept,          // they stay their owner's, who also has memory for the tiles of the target
  kept_strided,  // likewise, but the run may write only the elements of the target's tiles, not what lies between them
  donated,       // they are released as the run goes
};

// The memory that an engine takes beside the tiles of source and target.
struct EngineMemory {
  enum class Between {
    in_target,   // tiles between source and target lie in the target's memory where that is kept and they fit
    in_scratch,  // they never do
    every_step,  // slices are copies too, and kept tiles are copied first: nothing is shared
  };
  Between between = Between::in_target;
  std::int64_t staging = 0;  // bytes per device, at most

  bool operator==(const EngineMemory&) const = default;
};

constexpr std::int64_t no_memory_limit = std::numeric_limits<std::int64_t>::max();

// Bytes that the lists of pieces of a prepared run take in a process, unless told (docs/memory.md). If they need more,
// every execution works pieces out anew: slower, but a list for every pair of devices may need more than the tiles.
constexpr std::int64_t usual_listed_bytes = 32 << 20;

// Steps that are carried out by one copy, a stage: slices, which only narrow what is looked at, and the step after
// them. The tiles from before the slices stay in memory until then.
struct StageSteps {
  std::size_t first = 0;
  std::size_t last = 0;  // alone a slice where the movement ends with it
};

std::vector<StageSteps> stage_steps(const std::vector<Step>& steps);

// Elements that each device holds: of the source, then after each stage.
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
  std::vector<std::vector<std::int64_t>> sizes_;  // by stop and device, or one for all devices
  Device distinct_ = 1;
};

StageSizes stage_sizes(const Movement& movement);

// The memory of a run that keeps its tiles. Stages read and write in turn: what comes an even number of stages before
// the target lies in the target's memory where that may be and it fits, all else in one of two scratch buffers.
struct KeptPlaces {
  enum class Place { owner, target, even_scratch, odd_scratch };

  std::vector<Place> places;  // as stage_sizes(), and the same for all devices; the source is its owner's

  // Elements of a device's scratch of this kind.
  std::int64_t scratch(Place kind, const StageSizes& sizes, Device device) const;
};

KeptPlaces kept_places(const StageSizes& sizes, TileUse use, EngineMemory::Between between);

// Bytes per device at the worst moment. Throws RuntimeError where they do not fit in 63 bits.
std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use,
                                const EngineMemory& engine = {});

}  // namespace retile
