// Times contenders against each other on one problem, after checking what they do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluation/contender.h"
#include "retile/engines/engine.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

struct MeasureOptions {
  int repetitions = 5;
  std::uint64_t seed = 0;  // of the data
};

struct Measurement {
  std::vector<double> seconds;         // per repetition
  RunStatistics statistics;            // of the first run
  std::optional<std::string> skipped;  // why there are no times
};

// Every contender runs once and its result is compared with slices of the array; a contender that is wrong is skipped,
// and so is one that needs more memory than there is. Then all run in turn, repetition by repetition, between the same
// buffers, which by then have been touched. With several processes a collective call, with one answer.
std::vector<Measurement> measure(const Problem& problem, const std::vector<Contender>& contenders, Engine& engine,
                                 const MeasureOptions& options);

}  // namespace retile::evaluation
