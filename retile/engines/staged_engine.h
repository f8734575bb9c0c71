// The frame of engines: an engine whose runs go from stage to stage (staged_run.h), whatever backend moves the pieces.
#pragma once

#include <memory>

#include "retile/engines/backend.h"
#include "retile/engines/engine.h"

namespace retile {

// An engine that runs stages by what the backend brings.
std::unique_ptr<Engine> make_staged_engine(std::shared_ptr<Backend> backend);

}  // namespace retile
