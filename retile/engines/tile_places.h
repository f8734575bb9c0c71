// Where the tiles of a run lie, and what memory they take: from local sizes alone, whatever the number of devices.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// What becomes of the tiles that a run starts from.
enum class TileUse {
  kept,          // they stay their owner's, who also has memory for the tiles of the target
  kept_strided,  // the same, but what the target's tiles do not need of that memory is not the run's
  donated,       // they are freed as the run goes
};

// Local sizes in elements: of the source, then after each stage.
std::vector<std::int64_t> stage_sizes(const Movement& movement);

// The memory of a run that keeps its tiles. Stages read and write in turn: what comes an even number of stages before
// the target lies in the target's memory where that is packed and it fits, all else in one of two scratch buffers.
struct KeptPlaces {
  enum class Place { owner, target, even_scratch, odd_scratch };

  std::vector<Place> places;      // as stage_sizes(); the source is its owner's
  std::int64_t even_scratch = 0;  // elements
  std::int64_t odd_scratch = 0;
};

KeptPlaces kept_places(const std::vector<std::int64_t>& sizes, TileUse use);

// Bytes per device of an engine that copies from tile to tile: no staging. Throws RuntimeError where they do not fit in
// 63 bits.
std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use);

}  // namespace retile
