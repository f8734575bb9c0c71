// From a transfer's plan to what engines move.
#pragma once

#include <span>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/schedule/streams.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// The streams from sources that begin or end at these devices, ascending, and what they keep; or those that pass on
// what came into a host, from target tiles to target tiles. `strides` are of each array's tiles on these devices; none:
// all are packed.
Streams make_streams(const TransferPlan& plan, std::span<const Device> devices, std::span<const BufferStrides> strides,
                     bool is_relay = false);

}  // namespace retile::transfer
