#include "retile/runtime/runtime.h"

#include <chrono>
#include <string>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/runtime/interpreter.h"
#include "retile/runtime/transport.h"

namespace retile::runtime {
namespace {

using language::Function;
using language::Program;

const Function& main_of(const Program& program) { return program.functions[static_cast<std::size_t>(program.main)]; }

// Tiles of other sizes would be read past their ends.
void require_argument(bool condition, const char* what) {
  if (!condition) throw RuntimeError(std::string("the arguments do not fit the program: ") + what);
}

std::vector<Value> values_of(const Program& program, MemoryMeter& meter, std::size_t device_count,
                             std::vector<TileBuffers> arguments) {
  const Function& main = main_of(program);
  require_argument(arguments.size() == static_cast<std::size_t>(main.parameter_count), "one for each parameter");
  std::vector<Value> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::int64_t bytes = tile_bytes(main.values[i].type);
    require_argument(arguments[i].size() == device_count, "one tile for each device");
    for (const Buffer& tile : arguments[i]) {
      require_argument(tile.size() == static_cast<std::size_t>(bytes), "tiles as long as their types say");
    }
    values.push_back(std::make_shared<Array>(meter, bytes, std::move(arguments[i])));
  }
  return values;
}

ProgramRun run_and_time(Interpreter& interpreter, MemoryMeter& meter, std::vector<Value> arguments) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<Value> results = interpreter.run_main(std::move(arguments));
  ProgramRun run;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.peak_bytes = meter.peak();
  for (Value& value : results) {
    run.results.push_back(value.use_count() == 1 ? std::move(value->tiles) : value->tiles);
    value.reset();
  }
  return run;
}

}  // namespace

ProgramRunner::ProgramRunner(const Program& program, Engine& engine, const ProgramOptions& options)
    : program_(program), engine_(engine), planner_(options.planning), options_(options) {}

ProgramRunner::~ProgramRunner() = default;

ProgramRun ProgramRunner::run(std::vector<TileBuffers> arguments) {
  if (!interpreter_) {
    transport_ = make_engine_transport(program_, engine_, planner_, meter_);
    interpreter_ = std::make_unique<Interpreter>(program_, *transport_, meter_, options_);
  }
  return run_and_time(*interpreter_, meter_,
                      values_of(program_, meter_, transport_->devices().size(), std::move(arguments)));
}

std::int64_t ProgramRunner::predict_peak_bytes() {
  MemoryMeter meter;
  const std::unique_ptr<Transport> transport = make_predicting_transport(program_, engine_, planner_, meter);
  std::vector<TileBuffers> arguments(static_cast<std::size_t>(main_of(program_).parameter_count));
  Interpreter(program_, *transport, meter, {}).run_main(values_of(program_, meter, 0, std::move(arguments)));
  return meter.peak();
}

ProgramRun run_program(const Program& program, Engine& engine, std::vector<TileBuffers> arguments,
                       const ProgramOptions& options) {
  return ProgramRunner(program, engine, options).run(std::move(arguments));
}

ProgramRun run_by_slicing(const Program& program, std::vector<TileBuffers> arguments, const ProgramOptions& options) {
  MemoryMeter meter;
  const std::unique_ptr<Transport> transport = make_slicing_transport(program, meter);
  Interpreter interpreter(program, *transport, meter, options);
  return run_and_time(interpreter, meter, values_of(program, meter, transport->devices().size(), std::move(arguments)));
}

std::int64_t count_statements(const Program& program) {
  std::vector<std::int64_t> counts;  // callees come before callers
  for (const Function& function : program.functions) {
    std::int64_t count = 0;
    for (const language::Statement& statement : function.statements) {
      const auto* call = std::get_if<language::Call>(&statement.operation);
      const std::int64_t added = call == nullptr ? 1 : counts[static_cast<std::size_t>(call->function)];
      count = checked_add(count, added).value_or(INT64_MAX);
    }
    counts.push_back(count);
  }
  return counts[static_cast<std::size_t>(program.main)];
}

}  // namespace retile::runtime
