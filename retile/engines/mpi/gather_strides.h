// How all ranks' buffers lie: whoever reads from another rank's tile, or sends it a box, has to know.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/memory/tile_layout.h"
#include "retile/plan/plan.h"

namespace retile::mpi {

// From one side's strides of this rank's devices to those of all. Collective. Some rank has strides.
std::vector<Strides> gather_strides(const std::vector<Strides>& mine, const Placement& placement,
                                    std::int64_t element_size, const Communicator& world, const DeviceRanks& ranks);

}  // namespace retile::mpi
