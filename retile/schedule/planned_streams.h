// From a plan of streams to what engines move.
#pragma once

#include <span>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/schedule/stream_plan.h"
#include "retile/schedule/streams.h"

namespace retile {

// How the tiles of arrays lie in memory, array by array; none: all are packed.
struct ArrayStrides {
  std::span<const BufferStrides> strides;
  bool are_of_all_devices = false;  // otherwise of this process's alone
};

// The streams of a phase that begin or end at these devices, ascending; those from sources with what the devices keep.
Streams make_streams(const StreamPlan& plan, std::span<const Device> devices, const ArrayStrides& strides,
                     StreamPhase phase = StreamPhase::from_sources);

}  // namespace retile
