// Runs of transfers: the tiles of many arrays, moved at once.
#pragma once

#include <memory>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/engine.h"

namespace retile {

// `phases` are streams from sources to targets, and perhaps those that are passed on from targets.
std::unique_ptr<PreparedRun> make_transfer_run(std::shared_ptr<Backend> backend, std::vector<Streams> phases);

}  // namespace retile
