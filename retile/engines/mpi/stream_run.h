// Streams between ranks: copied or read straight from tiles that a rank of the same host can reach, sent in lanes of
// messages elsewhere, or by MPI's own collectives.
#pragma once

#include <memory>

#include "retile/engines/backend.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/job.h"
#include "retile/schedule/streams.h"

namespace retile::mpi {

// The job outlives it.
std::shared_ptr<PreparedStreams> make_stream_run(Job& job, Streams streams, DeviceRanks ranks);

}  // namespace retile::mpi
