#include "retile/language/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <variant>
#include <vector>

#include "retile/base/arithmetic.h"

namespace retile::language {
namespace {

// Which parameters the caller needs after the call.
using Kept = std::vector<bool>;

// More ways to call a function are counted as if callers needed all parameters after the call.
constexpr std::size_t most_contexts = 64;

constexpr int never = std::numeric_limits<int>::max();

// Each type's bytes are known to fit.
std::int64_t bytes_of(const ArrayType& type) { return type.placement.local_size() * retile::bytes_of(type.element); }
std::int64_t bytes_of(const LocalType& type) { return product(type.shape) * retile::bytes_of(type.element); }

std::vector<int> operands_of(const Statement& statement) {
  struct Visitor {
    std::vector<int> operator()(const SpmdOp& op) const { return op.operands; }
    std::vector<int> operator()(const Redistribute& op) const { return {op.operand}; }
    std::vector<int> operator()(const AllReduce& op) const { return {op.operand}; }
    std::vector<int> operator()(const Collective& op) const { return {op.operand}; }
    std::vector<int> operator()(const Call& op) const { return op.operands; }
  };
  return std::visit(Visitor{}, statement.operation);
}

// The statement of each value's last use: -1 for none, `never` for what the function returns.
std::vector<int> last_uses(const Function& function) {
  std::vector<int> last(function.values.size(), -1);
  for (std::size_t i = 0; i < function.statements.size(); ++i) {
    for (const int operand : operands_of(function.statements[i]))
      last[static_cast<std::size_t>(operand)] = static_cast<int>(i);
  }
  for (const int result : function.results) last[static_cast<std::size_t>(result)] = never;
  return last;
}

// Adds and takes away bytes. Throws InputError at the statement where they do not fit.
class Bytes {
 public:
  Bytes(const SourceText& source, SourceRange range) : source_(source), range_(range) {}

  std::int64_t add(std::int64_t a, std::int64_t b) const {
    if (const auto sum = checked_add(a, b)) return *sum;
    throw InputError(diagnose(source_, range_, "the memory that is needed here does not fit in 63 bits"));
  }

 private:
  const SourceText& source_;
  SourceRange range_;
};

// The most bytes of results alive at once, parameters not counted. What is returned is copied where it is a parameter
// or returned before.
std::int64_t local_peak(const LocalFunction& function, const Bytes& bytes) {
  const auto count = static_cast<int>(function.instructions.size());
  std::vector<int> last(function.instructions.size());
  for (int i = 0; i < count; ++i) {
    last[static_cast<std::size_t>(i)] = i;
    for (const int operand : function.instructions[static_cast<std::size_t>(i)].operands)
      last[static_cast<std::size_t>(operand)] = i;
  }
  for (const int result : function.results) last[static_cast<std::size_t>(result)] = never;
  std::vector<std::vector<int>> dying(function.instructions.size());
  for (int i = 0; i < count; ++i) {
    if (last[static_cast<std::size_t>(i)] != never)
      dying[static_cast<std::size_t>(last[static_cast<std::size_t>(i)])].push_back(i);
  }
  const auto size = [&](int index) {
    const LocalInstruction& instruction = function.instructions[static_cast<std::size_t>(index)];
    return instruction.op == LocalOp::parameter ? 0 : bytes_of(instruction.type);
  };
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (int i = 0; i < count; ++i) {
    live = bytes.add(live, size(i));
    peak = std::max(peak, live);
    for (const int dead : dying[static_cast<std::size_t>(i)]) live -= size(dead);
  }
  std::int64_t results = 0;
  for (const int result : function.results) {
    results = bytes.add(results, bytes_of(function.instructions[static_cast<std::size_t>(result)].type));
  }
  return std::max(peak, results);
}

class MemoryAnalysis {
 public:
  explicit MemoryAnalysis(ProgramPlanner& planner) : planner_(planner), program_(planner.program()) {}

  // Callers first to find how functions are called, then callees first to add up: no recursion, and chains of calls of
  // exponential length are counted once.
  MemoryPeak find() {
    const auto count = program_.functions.size();
    contexts_.resize(count);
    for (const Function& function : program_.functions) last_uses_.push_back(last_uses(function));
    add_context(program_.main, Kept(static_cast<std::size_t>(main().parameter_count)));
    for (std::size_t i = count; i-- > 0;) {
      for (const auto& [kept, peak] : contexts_[i]) find_callees(static_cast<int>(i), kept);
    }
    for (std::size_t i = 0; i < count; ++i) {
      for (auto& [kept, peak] : contexts_[i]) peak = measure(static_cast<int>(i), kept);
    }
    return contexts_[static_cast<std::size_t>(program_.main)].begin()->second;
  }

 private:
  const Function& main() const { return program_.functions[static_cast<std::size_t>(program_.main)]; }
  const Function& function_at(int index) const { return program_.functions[static_cast<std::size_t>(index)]; }

  void add_context(int function, const Kept& kept) {
    std::map<Kept, MemoryPeak>& contexts = contexts_[static_cast<std::size_t>(function)];
    const bool is_full = contexts.size() >= most_contexts && !contexts.contains(kept);
    contexts.try_emplace(is_full ? Kept(kept.size(), true) : kept);
  }

  const MemoryPeak& peak_of(int function, const Kept& kept) const {
    const std::map<Kept, MemoryPeak>& contexts = contexts_[static_cast<std::size_t>(function)];
    const auto entry = contexts.find(kept);
    return entry != contexts.end() ? entry->second : contexts.at(Kept(kept.size(), true));
  }

  // Whether the value is needed after the statement.
  bool is_needed(int function, const Kept& kept, int value, int statement) const {
    const auto index = static_cast<std::size_t>(value);
    const bool by_caller = index < kept.size() && kept[index];
    return by_caller || last_uses_[static_cast<std::size_t>(function)][index] > statement;
  }

  Kept kept_by_call(int function, const Kept& kept, const Call& call, int statement) const {
    Kept needed;
    for (const int operand : call.operands) needed.push_back(is_needed(function, kept, operand, statement));
    return needed;
  }

  void find_callees(int function, const Kept& kept) {
    const std::vector<Statement>& statements = function_at(function).statements;
    for (std::size_t i = 0; i < statements.size(); ++i) {
      const auto* call = std::get_if<Call>(&statements[i].operation);
      if (call != nullptr) add_context(call->function, kept_by_call(function, kept, *call, static_cast<int>(i)));
    }
  }

  MemoryPeak measure(int index, const Kept& kept) {
    const Function& function = function_at(index);
    const auto value_bytes = [&](int value) { return bytes_of(function.values[static_cast<std::size_t>(value)].type); };
    const Bytes bytes(*program_.source, function.range);
    std::int64_t live = 0;
    for (int i = 0; i < function.parameter_count; ++i) live = bytes.add(live, value_bytes(i));
    MemoryPeak peak{live, index, -1};
    for (int i = 0; i < function.parameter_count; ++i) {
      if (!is_needed(index, kept, i, -1)) live -= value_bytes(i);
    }
    for (std::size_t i = 0; i < function.statements.size(); ++i) {
      const Statement& statement = function.statements[i];
      const auto number = static_cast<int>(i);
      const MemoryPeak here = measure_statement({index, kept, number, live});
      if (here.bytes > peak.bytes) peak = here;
      const Bytes bytes_here(*program_.source, statement.range);
      for (const int operand : distinct(operands_of(statement))) {
        if (!is_needed(index, kept, operand, number)) live -= value_bytes(operand);
      }
      for (const int result : statement.results) {
        if (is_needed(index, kept, result, number)) live = bytes_here.add(live, value_bytes(result));
      }
    }
    return peak;
  }

  static std::vector<int> distinct(std::vector<int> values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  struct Moment {
    int function;
    const Kept& kept;
    int statement;
    std::int64_t live;  // bytes of values that are alive before it
  };

  MemoryPeak measure_statement(const Moment& moment) {
    const Function& function = function_at(moment.function);
    const Statement& statement = function.statements[static_cast<std::size_t>(moment.statement)];
    const Bytes bytes(*program_.source, statement.range);
    if (const auto* call = std::get_if<Call>(&statement.operation)) return measure_call(moment, function, *call, bytes);
    MemoryPeak peak{moment.live, moment.function, moment.statement};
    if (const auto* op = std::get_if<SpmdOp>(&statement.operation)) {
      peak.bytes = bytes.add(peak.bytes, local_peak(op->body, bytes));
      return peak;
    }
    const int operand = operands_of(statement).front();
    const bool donated = !is_needed(moment.function, moment.kept, operand, moment.statement);
    if (donated) peak.bytes -= bytes_of(function.values[static_cast<std::size_t>(operand)].type);
    peak.bytes = bytes.add(peak.bytes, planner_.figures(function, statement).peak_bytes);
    return peak;
  }

  // The callee's parameters are its operands.
  MemoryPeak measure_call(const Moment& moment, const Function& function, const Call& call, const Bytes& bytes) {
    MemoryPeak peak = peak_of(call.function, kept_by_call(moment.function, moment.kept, call, moment.statement));
    std::int64_t others = moment.live;
    for (const int operand : distinct(call.operands))
      others -= bytes_of(function.values[static_cast<std::size_t>(operand)].type);
    peak.bytes = bytes.add(peak.bytes, others);
    return peak;
  }

  ProgramPlanner& planner_;
  const Program& program_;
  std::vector<std::vector<int>> last_uses_;           // by function and value
  std::vector<std::map<Kept, MemoryPeak>> contexts_;  // by function: the ways in which it is called
};

}  // namespace

MemoryPeak find_memory_peak(ProgramPlanner& planner) { return MemoryAnalysis(planner).find(); }

std::optional<Diagnostic> find_excess(ProgramPlanner& planner, std::int64_t limit_bytes) {
  const Program& program = planner.program();
  const MemoryPeak peak = find_memory_peak(planner);
  if (peak.bytes <= limit_bytes) return std::nullopt;
  const Function& function = program.functions[static_cast<std::size_t>(peak.function)];
  const SourceRange place =
      peak.statement < 0 ? function.range : function.statements[static_cast<std::size_t>(peak.statement)].range;
  return diagnose(*program.source, place,
                  fmt::format("{} bytes per device are needed here, and the limit is {}", peak.bytes, limit_bytes),
                  "cut arrays along more axes, or use values for the last time earlier");
}

std::optional<Diagnostic> find_excess(const Program& program, std::int64_t limit_bytes, const PlanOptions& options) {
  ProgramPlanner planner(program, options);
  return find_excess(planner, limit_bytes);
}

}  // namespace retile::language
