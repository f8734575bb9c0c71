// Runs checked programs: local operations tile by tile, redistributions through an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/program.h"
#include "retile/planner/planner.h"
#include "retile/runtime/movements.h"
#include "retile/runtime/value.h"

namespace retile::runtime {

struct ProgramOptions {
  PlanOptions planning;                   // of redistributions
  std::function<void()> after_statement;  // for progress; may be empty
};

struct ProgramRun {
  std::vector<TileBuffers> results;  // of the main function, in order, for the engine's devices
  double seconds = 0;
  std::int64_t peak_bytes = 0;  // per device: tiles, intermediate results and staging alive at once
};

class Interpreter;
class Transport;

// A program ready to run on an engine; both must outlive it. What the first run has planned and prepared, later ones
// use again. With several processes every call is collective.
class ProgramRunner {
 public:
  ProgramRunner(const language::Program& program, Engine& engine, const ProgramOptions& options = {});
  ProgramRunner(const ProgramRunner&) = delete;
  ProgramRunner& operator=(const ProgramRunner&) = delete;
  ~ProgramRunner();

  // One argument for each of the main function's parameters: the tiles of the engine's devices. Throws RuntimeError
  // where the program fails, at its place: replicas that disagree, an integer divided by zero.
  ProgramRun run(std::vector<TileBuffers> arguments);

  // The most bytes per device that a run takes, found without one. Throws RuntimeError where they do not fit in 63
  // bits.
  std::int64_t predict_peak_bytes();

 private:
  const language::Program& program_;
  Engine& engine_;
  MovementPlanner planner_;
  const ProgramOptions options_;
  MemoryMeter meter_;
  std::unique_ptr<Transport> transport_;  // both from the first run on
  std::unique_ptr<Interpreter> interpreter_;
};

// One run.
ProgramRun run_program(const language::Program& program, Engine& engine, std::vector<TileBuffers> arguments,
                       const ProgramOptions& options = {});

// The same program without engine or planner, on all devices in this process: global arrays are put together and cut
// anew. What run_program() gives is checked against it.
ProgramRun run_by_slicing(const language::Program& program, std::vector<TileBuffers> arguments,
                          const ProgramOptions& options = {});

// How often after_statement is called in a run; as many as 64 bits can count where there are more.
std::int64_t count_statements(const language::Program& program);

}  // namespace retile::runtime
