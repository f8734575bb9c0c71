// The reference engine: obviously right, and slow. Every other engine is tested against it.
#pragma once

#include <cstdint>

#include "retile/engines/array.h"
#include "retile/plan/plan.h"

namespace retile {

// Bytes per device.
struct EngineStatistics {
  std::int64_t received_max = 0;    // the most that any device received, own parts not counted
  std::int64_t peak_predicted = 0;  // tiles alive at once, plus staging
  std::int64_t peak_measured = 0;
};

// What an engine that holds a step's input and output tiles at once needs per device.
std::int64_t predict_peak_bytes(const Plan& plan, std::int64_t element_size);

struct ReferenceResult {
  Tiles tiles;
  EngineStatistics statistics;
};

// Runs a plan that find_faults() finds no fault in. `tiles` are what the devices hold at the start;
// throws RuntimeError where they are not slices as the plan's source has them.
ReferenceResult run_reference(const Plan& plan, Tiles tiles, std::int64_t element_size);

}  // namespace retile
