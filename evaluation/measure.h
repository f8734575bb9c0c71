// Measurements: times contenders against each other on one problem, after checking their results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/contender.h"
#include "retile/engines/engine.h"
#include "retile/plan/executor.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

struct MeasureOptions {
  int repetitions = 5;
  std::uint64_t seed = 0;               // of the data
  TileOwner owner = TileOwner::engine;  // `caller` only for engines with host memory
};

struct Measurement {
  std::vector<double> seconds;         // per repetition
  RunStatistics statistics;            // of the first run
  std::optional<std::string> skipped;  // why there are no times
};

// Runs every contender once, and compares its result with slices of the array. A contender that is wrong, or needs more
// memory than there is, is skipped. Then all run in turn, repetition by repetition, between the same buffers, which
// have been touched by then. A collective call if there are several processes; all get the same answer.
std::vector<Measurement> measure(const Problem& problem, const std::vector<Contender>& contenders, Engine& engine,
                                 const MeasureOptions& options);

}  // namespace retile::evaluation
