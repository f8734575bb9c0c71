#include "retile/runtime/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>

#include "retile/runtime/local.h"

namespace retile::runtime {
namespace {

using language::Call;
using language::Function;
using language::Program;
using language::SpmdOp;
using language::Statement;

constexpr int most_nested_calls = 1000;  // each takes room on the stack

// Less work than this is done before other threads have started.
constexpr double least_parallel_operations = 1e6;

std::vector<int> operands_of(const Statement& statement) {
  return std::visit(
      [](const auto& operation) -> std::vector<int> {
        if constexpr (requires { operation.operands; }) {
          return operation.operands;
        } else {
          return {operation.operand};
        }
      },
      statement.operation);
}

std::vector<std::ptrdiff_t> last_uses_of(const Function& function) {
  std::vector<std::ptrdiff_t> last(function.values.size(), -1);
  for (std::size_t i = 0; i < function.statements.size(); ++i) {
    const Statement& statement = function.statements[i];
    for (const int value : operands_of(statement))
      last[static_cast<std::size_t>(value)] = static_cast<std::ptrdiff_t>(i);
    for (const int value : statement.results) last[static_cast<std::size_t>(value)] = static_cast<std::ptrdiff_t>(i);
  }
  for (const int value : function.results) {
    last[static_cast<std::size_t>(value)] = static_cast<std::ptrdiff_t>(function.statements.size());
  }
  return last;
}

void require_shallow_calls(const Program& program) {
  std::vector<int> depth(program.functions.size(), 1);  // callees come before callers
  for (std::size_t f = 0; f < depth.size(); ++f) {
    for (const Statement& statement : program.functions[f].statements) {
      const auto* call = std::get_if<Call>(&statement.operation);
      if (call != nullptr) depth[f] = std::max(depth[f], depth[static_cast<std::size_t>(call->function)] + 1);
    }
    if (depth[f] <= most_nested_calls) continue;
    throw InputError(diagnose(*program.source, program.functions[f].range,
                              fmt::format("calls nest deeper than {}", most_nested_calls)));
  }
}

// The values with these numbers, moved out of the frame where this is their last use.
std::vector<Value> take(std::vector<Value>& frame, const std::vector<int>& numbers,
                        const std::vector<std::ptrdiff_t>& last_uses, std::ptrdiff_t now) {
  std::vector<Value> values;
  for (const int number : numbers) values.push_back(frame[static_cast<std::size_t>(number)]);
  for (const int number : numbers) {
    if (last_uses[static_cast<std::size_t>(number)] == now) frame[static_cast<std::size_t>(number)] = nullptr;
  }
  return values;
}

}  // namespace

Interpreter::Interpreter(const Program& program, Transport& transport, MemoryMeter& meter,
                         const ProgramOptions& options)
    : program_(program), transport_(transport), meter_(meter), options_(options) {
  require_shallow_calls(program);
  for (const Function& function : program.functions) last_uses_.push_back(last_uses_of(function));
}

std::vector<Value> Interpreter::run_main(std::vector<Value> arguments) {
  return run(program_.main, std::move(arguments));
}

std::vector<Value> Interpreter::run(int number, std::vector<Value> arguments) {
  const Function& function = program_.functions[static_cast<std::size_t>(number)];
  const std::vector<std::ptrdiff_t>& last_uses = last_uses_[static_cast<std::size_t>(number)];
  std::vector<Value> frame(function.values.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (last_uses[i] >= 0) frame[i] = std::move(arguments[i]);
  }
  arguments.clear();
  for (std::size_t i = 0; i < function.statements.size(); ++i) {
    const Statement& statement = function.statements[i];
    const auto now = static_cast<std::ptrdiff_t>(i);
    std::vector<Value> results = run(function, statement, take(frame, operands_of(statement), last_uses, now));
    for (std::size_t r = 0; r < results.size(); ++r) {
      const auto value = static_cast<std::size_t>(statement.results[r]);
      if (last_uses[value] > now) frame[value] = std::move(results[r]);
    }
  }
  return take(frame, function.results, last_uses, static_cast<std::ptrdiff_t>(function.statements.size()));
}

std::vector<Value> Interpreter::run(const Function& function, const Statement& statement, std::vector<Value> operands) {
  if (const auto* call = std::get_if<Call>(&statement.operation)) return run(call->function, std::move(operands));
  std::vector<Value> results;
  if (const auto* operation = std::get_if<SpmdOp>(&statement.operation)) {
    results = compute(function, statement, *operation, operands);
    require_agreement(function, statement, results);
  } else {
    const int operand = operands_of(statement).front();
    results.push_back(transport_.move(statement, function.values[static_cast<std::size_t>(operand)].type,
                                      function.values[static_cast<std::size_t>(statement.results.front())].type,
                                      std::move(operands.front())));
  }
  if (options_.after_statement) options_.after_statement();
  return results;
}

std::vector<Value> Interpreter::compute(const Function& function, const Statement& statement, const SpmdOp& operation,
                                        const std::vector<Value>& operands) {
  const std::vector<Device>& devices = transport_.devices();
  std::vector<LocalResults> computed(devices.size());
  const auto compute_on = [&](std::size_t i) {
    std::vector<const std::byte*> tiles;
    for (const Value& operand : operands) tiles.push_back(operand->tiles[i].data());
    computed[i] = evaluate(operation.body, tiles, {program_.mesh, devices[i], *program_.source});
  };
  const double operations = count_operations(operation.body) * static_cast<double>(devices.size());
  transport_.processes().do_together([&] { for_each_device(operations, compute_on); });

  std::int64_t peak = devices.empty() ? predict_peak_bytes(operation.body) : 0;
  for (const LocalResults& local : computed) peak = std::max(peak, local.peak_bytes);
  meter_.note(peak);
  std::vector<Value> results;
  for (std::size_t r = 0; r < statement.results.size(); ++r) {
    TileBuffers tiles;
    for (LocalResults& local : computed) tiles.push_back(std::move(local.arrays[r]));
    const auto value = static_cast<std::size_t>(statement.results[r]);
    results.push_back(std::make_shared<Array>(meter_, tile_bytes(function.values[value].type), std::move(tiles)));
  }
  return results;
}

// What fails on the first of several devices is thrown, whichever was faster.
void Interpreter::for_each_device(double operations, const std::function<void(std::size_t)>& work) {
  const std::size_t count = transport_.devices().size();
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
                                    const std::vector<Value>& results) {
  for (std::size_t r = 0; r < results.size(); ++r) {
    const language::Value& declaration = function.values[static_cast<std::size_t>(statement.results[r])];
    const std::optional<Diagnostic> found = transport_.find_disagreement(declaration, *results[r]);
    transport_.processes().do_together([&] {
      if (found) throw ProgramFailure(*found);
    });
  }
}

}  // namespace retile::runtime
