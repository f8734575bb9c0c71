// The reference engine: obviously right, and slow. Every other engine is tested against it.
#pragma once

#include <cstdint>
#include <memory>

#include "retile/engines/engine.h"
#include "retile/plan/plan.h"

namespace retile {

// All devices' tiles in this process, moved one after the other.
std::unique_ptr<Engine> make_reference_engine();

// What an engine that holds a step's input and output tiles at once needs per device.
std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size);

}  // namespace retile
