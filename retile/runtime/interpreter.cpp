#include "retile/runtime/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

#include "retile/language/liveness.h"
#include "retile/runtime/local.h"

namespace retile::runtime {
namespace {

using language::Call;
using language::Function;
using language::LoweredProgram;
using language::Program;
using language::SpmdOp;
using language::Statement;

// Less work than this is done before other threads have started.
constexpr double least_parallel_operations = 1e6;

// The values with these numbers, moved out of the frame where this is their last use.
std::vector<SharedArray> take(std::vector<SharedArray>& frame, const std::vector<int>& values,
                              const std::vector<int>& last_uses, int now) {
  std::vector<SharedArray> arrays;
  for (const int value : values) arrays.push_back(at(frame, value));
  for (const int value : values) {
    if (at(last_uses, value) == now) at(frame, value) = nullptr;
  }
  return arrays;
}

}  // namespace

Interpreter::Interpreter(const LoweredProgram& lowered, Mover& mover, MemoryMeter& meter,
                         const AfterStatement& after_statement)
    : lowered_(lowered), program_(lowered.program), mover_(mover), meter_(meter), after_statement_(after_statement) {
  for (const Function& function : program_.functions) last_uses_.push_back(language::last_uses(function));
}

std::vector<SharedArray> Interpreter::run_main(std::vector<SharedArray> arguments) {
  return run(program_.main, std::move(arguments));
}

std::vector<SharedArray> Interpreter::run(int number, std::vector<SharedArray> arguments) {
  const Function& function = at(program_.functions, number);
  const std::vector<int>& last_uses = at(last_uses_, number);
  std::vector<SharedArray> frame(function.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (last_uses[i] >= 0) frame[i] = std::move(arguments[i]);
  }
  arguments.clear();
  const auto count = static_cast<int>(function.statements.size());
  for (int now = 0; now < count; ++now) {
    const auto i = static_cast<std::size_t>(now);
    const Statement& statement = function.statements[i];
    std::vector<SharedArray> results = run(number, i, take(frame, operands_of(statement), last_uses, now));
    for (std::size_t r = 0; r < results.size(); ++r) {
      const auto value = static_cast<std::size_t>(statement.results[r]);
      if (last_uses[value] > now) frame[value] = std::move(results[r]);
    }
  }
  return take(frame, function.results, last_uses, count);
}

std::vector<SharedArray> Interpreter::run(int number, std::size_t index, std::vector<SharedArray> operands) {
  const Function& function = at(program_.functions, number);
  const Statement& statement = function.statements[index];
  if (const auto* call = std::get_if<Call>(&statement.operation)) return run(call->function, std::move(operands));
  std::vector<SharedArray> results;
  if (const auto* operation = std::get_if<SpmdOp>(&statement.operation)) {
    results = compute(function, statement, *operation, operands);
    require_agreement(function, statement, results);
  } else {
    results.push_back(mover_.move(*at(lowered_.statements, number)[index].movement,
                                  operand_of(function, statement).type, result_of(function, statement).type,
                                  std::move(operands.front())));
  }
  if (after_statement_) after_statement_();
  return results;
}

std::vector<SharedArray> Interpreter::compute(const Function& function, const Statement& statement,
                                              const SpmdOp& operation, const std::vector<SharedArray>& operands) {
  const std::vector<Device>& devices = mover_.devices();
  std::vector<LocalResults> computed(devices.size());
  const auto compute_on = [&](std::size_t i) {
    std::vector<const std::byte*> tiles;
    for (const SharedArray& operand : operands) tiles.push_back(operand->tiles[i].data());
    const LocalContext context{program_.mesh, devices[i], *program_.source};
    const bool is_even = operation.body.cuts.empty();
    computed[i] = is_even ? evaluate(operation.body, tiles, context)
                          : evaluate(on_device(operation.body, program_.mesh, devices[i]), tiles, context);
  };
  const double operations = count_operations(operation.body) * static_cast<double>(devices.size());
  mover_.processes().do_together([&] { for_each_device(operations, compute_on); });

  std::int64_t peak = devices.empty() ? language::local_peak_bytes(operation.body) : 0;
  for (const LocalResults& local : computed) peak = std::max(peak, local.peak_bytes);
  meter_.note(peak);
  std::vector<SharedArray> results;
  for (std::size_t r = 0; r < statement.results.size(); ++r) {
    TileBuffers tiles;
    for (LocalResults& local : computed) tiles.push_back(std::move(local.arrays[r]));
    const auto value = static_cast<std::size_t>(statement.results[r]);
    results.push_back(std::make_shared<Array>(meter_, bytes_of(function.values[value].type), std::move(tiles)));
  }
  return results;
}

// What fails on the first of several devices is thrown, whichever was faster.
void Interpreter::for_each_device(double operations, const std::function<void(std::size_t)>& work) {
  const std::size_t count = mover_.devices().size();
  if (operations < least_parallel_operations) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  if (!workers_)
    workers_ = std::make_unique<WorkerPool>(std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
  std::vector<std::exception_ptr> failures(count);
  workers_->for_each(count, [&](std::size_t i) {
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

void Interpreter::require_agreement(const Function& function, const Statement& statement,
                                    const std::vector<SharedArray>& results) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    const language::Value& declaration = at(function.values, statement.results[r]);
    const std::optional<Diagnostic> found = mover_.find_disagreement(declaration, *results[r]);
    mover_.processes().do_together([&] {
      if (found) throw ProgramFailure(*found);
    });
  }
}

}  // namespace retile::runtime
