// A run of a plan on an engine: made-up data in, moved, compared with slices of the global array.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/plan/plan.h"

namespace retile {

struct RunOptions {
  std::int64_t element_size = 4;  // bytes
  std::uint64_t seed = 0;
  int repetitions = 1;
  TileUse tiles = TileUse::kept;  // kept: all memory but the engine's is touched before the clock starts
};

// The report of a run of a plan, a transfer or a program.
struct RunReport {
  std::string id;
  std::string engine;
  std::int64_t devices = 0;
  std::optional<std::string> difference;  // nothing: every device ended with its slices
  std::vector<double> seconds;            // per repetition
  std::int64_t received_bytes_max = 0;    // per device, as are the peaks
  std::int64_t peak_bytes_predicted = 0;
  std::int64_t peak_bytes_measured = 0;
};

// A run that cannot fit is refused before it starts: running out half way could exhaust the machine's memory.
// Throws RuntimeError where the machine has not the memory for its tiles.
void require_memory(const Plan& plan, const Engine& engine, const RunOptions& options);

// Runs a plan that find_faults() finds no fault in. Each process makes and checks the tiles of its own devices; the
// report is the same on all. Throws RuntimeError where the machine has not the memory for it.
RunReport run_plan(const Plan& plan, Engine& engine, const RunOptions& options = {});

// One line, without its end.
std::string to_json(const RunReport& report);

}  // namespace retile
