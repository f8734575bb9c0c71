// How all ranks' buffers lie: whoever reads from another rank's tile, or sends it a box, has to know.
#pragma once

#include <cstdint>

#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/memory/tile_layout.h"
#include "retile/plan/plan.h"

namespace retile::mpi {

// From the strides of this rank's devices to those of all. Collective. Throws RuntimeError on all ranks where those of
// one are wrong.
BufferStrides gather_strides(const BufferStrides& mine, const Movement& movement, std::int64_t element_size,
                             const Communicator& world, const DeviceRanks& ranks);

}  // namespace retile::mpi
