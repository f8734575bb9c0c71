// Streams between ranks: copied or read straight from tiles that a rank of the same host can reach, sent as one message
// per pair of ranks and round elsewhere.
#pragma once

#include <memory>

#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/job.h"
#include "retile/engines/streams.h"

namespace retile::mpi {

std::unique_ptr<PreparedStreams> make_stream_run(std::shared_ptr<Job> job, Streams streams, DeviceRanks ranks);

}  // namespace retile::mpi
