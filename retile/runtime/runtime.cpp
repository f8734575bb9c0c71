#include "retile/runtime/runtime.h"

#include <chrono>
#include <string>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/runtime/interpreter.h"
#include "retile/runtime/mover.h"

namespace retile::runtime {
namespace {

using language::Function;
using language::LoweredProgram;
using language::Program;

// Tiles of other sizes would be read past their ends.
void require_argument(bool condition, const char* what) {
  if (!condition) throw RuntimeError(std::string("the arguments do not fit the program: ") + what);
}

std::vector<SharedArray> arrays_of(const Program& program, MemoryMeter& meter, const std::vector<Device>& devices,
                                   std::vector<TileBuffers> arguments) {
  const Function& main = main_of(program);
  require_argument(arguments.size() == static_cast<std::size_t>(main.parameter_count), "one for each parameter");
  std::vector<SharedArray> arrays;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const language::ArrayType& type = main.values[i].type;
    require_argument(arguments[i].size() == devices.size(), "one tile for each device");
    for (std::size_t d = 0; d < devices.size(); ++d) {
      const std::int64_t bytes = type.placement.size(devices[d]) * bytes_of(type.element);
      require_argument(arguments[i][d].size() == static_cast<std::size_t>(bytes), "tiles as long as their types say");
    }
    arrays.push_back(std::make_shared<Array>(meter, bytes_of(type), std::move(arguments[i])));
  }
  return arrays;
}

ProgramRun run_and_time(Interpreter& interpreter, Mover& mover, MemoryMeter& meter,
                        std::vector<SharedArray> arguments) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<SharedArray> results = interpreter.run_main(std::move(arguments));
  ProgramRun run;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  mover.processes().do_together([&] {
    for (SharedArray& array : results) {  // what is returned again is copied
      if (array.use_count() > 1) array = std::make_shared<Array>(meter, array->tile_bytes(), array->tiles);
    }
  });
  run.peak_bytes = meter.peak();
  for (const SharedArray& array : results) run.results.push_back(std::move(array->tiles));
  return run;
}

}  // namespace

ProgramRunner::ProgramRunner(const LoweredProgram& lowered, Engine& engine, const AfterStatement& after_statement)
    : lowered_(lowered), engine_(engine), after_statement_(after_statement) {}

ProgramRunner::~ProgramRunner() = default;

ProgramRun ProgramRunner::run(std::vector<TileBuffers> arguments) {
  if (!interpreter_) {
    mover_ = make_engine_mover(lowered_.program, engine_, meter_);
    interpreter_ = std::make_unique<Interpreter>(lowered_, *mover_, meter_, after_statement_);
  }
  return run_and_time(*interpreter_, *mover_, meter_,
                      arrays_of(lowered_.program, meter_, mover_->devices(), std::move(arguments)));
}

ProgramRun run_program(const LoweredProgram& lowered, Engine& engine, std::vector<TileBuffers> arguments,
                       const AfterStatement& after_statement) {
  return ProgramRunner(lowered, engine, after_statement).run(std::move(arguments));
}

ProgramRun run_by_slicing(const LoweredProgram& lowered, std::vector<TileBuffers> arguments,
                          const AfterStatement& after_statement) {
  MemoryMeter meter;
  const std::unique_ptr<Mover> mover = make_slicing_mover(lowered.program, meter);
  Interpreter interpreter(lowered, *mover, meter, after_statement);
  return run_and_time(interpreter, *mover, meter,
                      arrays_of(lowered.program, meter, mover->devices(), std::move(arguments)));
}

std::int64_t count_statements(const Program& program) {
  std::vector<std::int64_t> counts;  // callees come before callers
  for (const Function& function : program.functions) {
    std::int64_t count = 0;
    for (const language::Statement& statement : function.statements) {
      const auto* call = std::get_if<language::Call>(&statement.operation);
      const std::int64_t added = call == nullptr ? 1 : at(counts, call->function);
      count = checked_add(count, added).value_or(INT64_MAX);
    }
    counts.push_back(count);
  }
  return at(counts, program.main);
}

}  // namespace retile::runtime
