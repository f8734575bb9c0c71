// The frame of engines: runs as stages between tiles, whatever moves the pieces. It owns scratch and staging, keeps
// account of what is alive, checks what it is given, and counts.
#pragma once

#include <memory>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/engine.h"

namespace retile {

// An engine that runs stages by what the backend brings.
std::unique_ptr<Engine> make_staged_engine(std::shared_ptr<Backend> backend);

}  // namespace retile
