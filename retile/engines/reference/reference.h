// The reference engine: obviously right, and slow. Every other engine is tested against it.
#pragma once

#include <memory>

#include "retile/engines/engine.h"

namespace retile {

// All devices' tiles in this process, moved one after the other.
std::unique_ptr<Engine> make_reference_engine();

}  // namespace retile
