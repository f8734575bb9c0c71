// The memory of a run: the bytes that a device holds at once, its tiles and staging (docs/memory.md). From local sizes
// alone, whatever the number of devices. Planners, programs, engines, limits and reports all count by this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// What becomes of the tiles that a run starts from.
enum class TileUse {
  kept,          // they stay their owner's, who also has memory for the tiles of the target
  kept_strided,  // the same, but what the target's tiles do not need of that memory is not the run's
  donated,       // they are released as the run goes
};

// What an engine takes beside the tiles of source and target.
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

// Steps that are carried out by one copy, a stage: slices, which only narrow what is looked at, and the step after
// them. The tiles from before the slices stay in memory until then.
struct StageSteps {
  std::size_t first = 0;
  std::size_t last = 0;  // alone a slice where the movement ends with it
};

std::vector<StageSteps> stage_steps(const std::vector<Step>& steps);

// Local sizes in elements: of the source, then after each stage.
std::vector<std::int64_t> stage_sizes(const Movement& movement);

// The memory of a run that keeps its tiles. Stages read and write in turn: what comes an even number of stages before
// the target lies in the target's memory where that may be and it fits, all else in one of two scratch buffers.
struct KeptPlaces {
  enum class Place { owner, target, even_scratch, odd_scratch };

  std::vector<Place> places;      // as stage_sizes(); the source is its owner's
  std::int64_t even_scratch = 0;  // elements
  std::int64_t odd_scratch = 0;
};

KeptPlaces kept_places(const std::vector<std::int64_t>& sizes, TileUse use, EngineMemory::Between between);

// Bytes per device at the worst moment. Throws RuntimeError where they do not fit in 63 bits.
std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use,
                                const EngineMemory& engine = {});

}  // namespace retile
