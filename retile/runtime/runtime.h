// Runs lowered programs: local operations tile by tile, redistributions through an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/lowering.h"
#include "retile/runtime/shared_array.h"

namespace retile::runtime {

using AfterStatement = std::function<void()>;  // for progress; may be empty

struct ProgramRun {
  std::vector<TileBuffers> results;  // of the main function, in order, for the engine's devices
  double seconds = 0;
  std::int64_t peak_bytes = 0;  // per device; at most what language/memory.h finds for the engine
};

class Interpreter;
class Mover;

// A program ready to run on an engine; both must outlive it. What the first run has prepared, later ones use again.
// With several processes, every call is collective.
class ProgramRunner {
 public:
  ProgramRunner(const language::LoweredProgram& lowered, Engine& engine, const AfterStatement& after_statement = {});
  ProgramRunner(const ProgramRunner&) = delete;
  ProgramRunner& operator=(const ProgramRunner&) = delete;
  ~ProgramRunner();

  // One argument for each of the main function's parameters: the tiles of the engine's devices. Throws RuntimeError
  // where the program fails, at its place: replicas that disagree, an integer divided by zero.
  ProgramRun run(std::vector<TileBuffers> arguments);

 private:
  const language::LoweredProgram& lowered_;
  Engine& engine_;
  const AfterStatement after_statement_;
  MemoryMeter meter_;
  std::unique_ptr<Mover> mover_;  // both from the first run on
  std::unique_ptr<Interpreter> interpreter_;
};

// One run.
ProgramRun run_program(const language::LoweredProgram& lowered, Engine& engine, std::vector<TileBuffers> arguments,
                       const AfterStatement& after_statement = {});

// Runs the program without engine or planner, on all devices in this process: global arrays are put together and cut
// anew. What run_program() gives is checked against it.
ProgramRun run_by_slicing(const language::LoweredProgram& lowered, std::vector<TileBuffers> arguments,
                          const AfterStatement& after_statement = {});

// How often after_statement is called in a run; as many as 64 bits can count where there are more.
std::int64_t count_statements(const language::Program& program);

}  // namespace retile::runtime
