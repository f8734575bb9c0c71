#include "retile/language/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <variant>
#include <vector>

#include "retile/base/error.h"
#include "retile/language/liveness.h"
#include "retile/language/memory_meter.h"

namespace retile::language {
namespace {

constexpr int never = std::numeric_limits<int>::max();

// How a function is called, by parameter.
struct Context {
  std::vector<int> same_as;  // the first parameter that has the same array
  std::vector<bool> kept;    // somebody needs the array after the call

  auto operator<=>(const Context&) const = default;
};

Context distinct_parameters(int count, bool kept) {
  Context context{std::vector<int>(static_cast<std::size_t>(count)),
                  std::vector<bool>(static_cast<std::size_t>(count), kept)};
  std::iota(context.same_as.begin(), context.same_as.end(), 0);
  return context;
}

// A function called for a context gets another one, with at least its peak, where there are as many already.
constexpr std::size_t most_contexts = 64;

class MemoryAnalysis {
 public:
  MemoryAnalysis(const LoweredProgram& lowered, const PredictMovement& predict)
      : lowered_(lowered), program_(lowered.program), predict_(predict), contexts_(program_.functions.size()) {}

  // Callers first to find how functions are called, then callees first to add up: no recursion, and chains of calls of
  // exponential length are counted once.
  MemoryPeak find() {
    for (std::size_t i = 0; i < program_.functions.size(); ++i) {
      last_uses_.push_back(last_uses(program_.functions[i]));
      owners_.push_back(find_owners(i));
    }
    add_context(program_.main, distinct_parameters(main_of(program_).parameter_count, false));
    for (std::size_t i = program_.functions.size(); i-- > 0;) {
      for (const auto& [context, peak] : contexts_[i]) find_callees(frame_of(static_cast<int>(i), context));
    }
    for (std::size_t i = 0; i < program_.functions.size(); ++i) {
      for (auto& [context, peak] : contexts_[i]) peak = measure(frame_of(static_cast<int>(i), context));
    }
    return contexts_[static_cast<std::size_t>(program_.main)].begin()->second;
  }

 private:
  // A function's arrays as one context has them. An array is known by the first value that has it.
  struct Frame {
    int index;
    const Function& function;
    std::vector<int> arrays;  // by value
    std::vector<int> last;    // by array: the statement of its last use, `never` where the caller needs it

    int array(int value) const { return arrays[static_cast<std::size_t>(value)]; }
    int last_use(int array) const { return last[static_cast<std::size_t>(array)]; }
    std::int64_t bytes(int array) const { return bytes_of(function.values[static_cast<std::size_t>(array)].type); }
    std::set<int> operands(const Statement& statement) const {
      std::set<int> operands;
      for (const int value : operands_of(statement)) operands.insert(array(value));
      return operands;
    }
  };

  // --- Arrays.

  // By value of a function: the first value that has the same array, whatever the context.
  std::vector<int> find_owners(std::size_t index) const {
    const Function& function = program_.functions[index];
    std::vector<int> owners(function.values.size());
    std::iota(owners.begin(), owners.end(), 0);
    for (std::size_t i = 0; i < function.statements.size(); ++i) {
      const Statement& statement = function.statements[i];
      const Movements& movements = lowered_.statements[index][i].movements;
      if (const auto* call = std::get_if<Call>(&statement.operation)) {
        find_owners(*call, statement.results, owners);
      } else if (movements.size() == 1 && movements.front()->steps.empty()) {
        const int operand = operands_of(statement).front();
        owners[static_cast<std::size_t>(statement.results.front())] = owners[static_cast<std::size_t>(operand)];
      }
    }
    return owners;
  }

  // Of a call's results: the callee returns arrays that it was given, and others perhaps several times.
  void find_owners(const Call& call, const std::vector<int>& results, std::vector<int>& owners) const {
    const Function& callee = program_.functions[static_cast<std::size_t>(call.function)];
    std::map<int, int> made;  // the callee's arrays
    for (std::size_t i = 0; i < results.size(); ++i) {
      const auto returned = static_cast<std::size_t>(callee.results[i]);
      const int array = owners_[static_cast<std::size_t>(call.function)][returned];
      owners[static_cast<std::size_t>(results[i])] =
          array < callee.parameter_count
              ? owners[static_cast<std::size_t>(call.operands[static_cast<std::size_t>(array)])]
              : made.try_emplace(array, results[i]).first->second;
    }
  }

  Frame frame_of(int index, const Context& context) const {
    const auto number = static_cast<std::size_t>(index);
    Frame frame{index, program_.functions[number], owners_[number], std::vector<int>(owners_[number].size(), -1)};
    for (std::size_t value = 0; value < frame.arrays.size(); ++value) {
      int& array = frame.arrays[value];
      const auto owner = static_cast<std::size_t>(array);
      const bool is_kept = owner < context.kept.size() && context.kept[owner];
      if (owner < context.same_as.size()) array = context.same_as[owner];
      int& last = frame.last[static_cast<std::size_t>(array)];
      last = std::max(last, is_kept ? never : last_uses_[number][value]);
    }
    return frame;
  }

  // --- Contexts.

  void add_context(int function, const Context& context) {
    std::map<Context, MemoryPeak>& contexts = contexts_[static_cast<std::size_t>(function)];
    const bool is_full = contexts.size() >= most_contexts && !contexts.contains(context);
    contexts.try_emplace(is_full ? distinct_parameters(static_cast<int>(context.kept.size()), true) : context);
  }

  const MemoryPeak& peak_of(int function, const Context& context) const {
    const std::map<Context, MemoryPeak>& contexts = contexts_[static_cast<std::size_t>(function)];
    const auto entry = contexts.find(context);
    return entry != contexts.end() ? entry->second
                                   : contexts.at(distinct_parameters(static_cast<int>(context.kept.size()), true));
  }

  static Context context_of(const Frame& frame, const Call& call, int statement) {
    Context context;
    std::map<int, int> first;  // parameter of each array
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const int array = frame.array(call.operands[i]);
      context.same_as.push_back(first.try_emplace(array, static_cast<int>(i)).first->second);
      context.kept.push_back(frame.last_use(array) > statement);
    }
    return context;
  }

  void find_callees(const Frame& frame) {
    for (std::size_t i = 0; i < frame.function.statements.size(); ++i) {
      const auto* call = std::get_if<Call>(&frame.function.statements[i].operation);
      if (call != nullptr) add_context(call->function, context_of(frame, *call, static_cast<int>(i)));
    }
  }

  // --- Bytes.

  template <typename Count>
  std::int64_t count_at(SourceRange place, Count count) const {
    try {
      return count();
    } catch (const RuntimeError&) {
      throw InputError(diagnose(*program_.source, place, "the memory that is needed here does not fit in 63 bits"));
    }
  }

  MemoryPeak measure(const Frame& frame) const {
    const Function& function = frame.function;
    std::set<int> parameters(frame.arrays.begin(), frame.arrays.begin() + function.parameter_count);
    std::int64_t live = count_at(function.range, [&] { return sum_of(frame, parameters); });
    MemoryPeak peak{live, frame.index, -1};
    std::erase_if(parameters, [&](int array) { return frame.last_use(array) >= 0; });
    live -= sum_of(frame, parameters);
    for (std::size_t i = 0; i < function.statements.size(); ++i) {
      const Statement& statement = function.statements[i];
      const auto number = static_cast<int>(i);
      const MemoryPeak here = measure_statement(frame, number, live);
      if (here.bytes > peak.bytes) peak = here;
      for (const int array : frame.operands(statement)) {
        if (frame.last_use(array) <= number) live -= frame.bytes(array);
      }
      for (const int result : statement.results) {  // the statement's peak has them, so that they fit
        if (frame.array(result) == result && frame.last_use(result) > number) live += frame.bytes(result);
      }
    }
    if (frame.index != program_.main) return peak;
    const std::int64_t returned = count_at(function.return_range, [&] { return sum_of(frame, function.results); });
    if (returned <= peak.bytes) return peak;
    return {returned, frame.index, static_cast<int>(function.statements.size())};
  }

  template <typename Values>
  static std::int64_t sum_of(const Frame& frame, const Values& values) {
    std::int64_t sum = 0;
    for (const int value : values) sum = add_bytes(sum, frame.bytes(value));
    return sum;
  }

  // `live` are the bytes of arrays that are alive before it.
  MemoryPeak measure_statement(const Frame& frame, int number, std::int64_t live) const {
    const Statement& statement = frame.function.statements[static_cast<std::size_t>(number)];
    MemoryPeak peak{live, frame.index, number};
    std::int64_t beside = live;  // those that are not counted with the statement
    if (!std::holds_alternative<SpmdOp>(statement.operation)) beside -= sum_of(frame, frame.operands(statement));
    if (const auto* call = std::get_if<Call>(&statement.operation)) {
      peak = peak_of(call->function, context_of(frame, *call, number));
      peak.bytes = count_at(statement.range, [&] { return add_bytes(beside, peak.bytes); });
      return peak;
    }
    peak.bytes = count_at(statement.range, [&] {
      if (const auto* op = std::get_if<SpmdOp>(&statement.operation))
        return add_bytes(beside, local_peak_bytes(op->body));
      const int array = *frame.operands(statement).begin();
      const TileUse use = frame.last_use(array) > number ? TileUse::kept : TileUse::donated;
      const auto& function = lowered_.statements[static_cast<std::size_t>(frame.index)];
      return add_bytes(beside, peak_of_movements(function[static_cast<std::size_t>(number)].movements,
                                                 retile::bytes_of(operand_of(frame.function, statement).type.element),
                                                 use, predict_));
    });
    return peak;
  }

  const LoweredProgram& lowered_;
  const Program& program_;
  const PredictMovement& predict_;
  std::vector<std::vector<int>> last_uses_;              // by function and value
  std::vector<std::vector<int>> owners_;                 // by function and value
  std::vector<std::map<Context, MemoryPeak>> contexts_;  // by function: the ways in which it is called
};

}  // namespace

MemoryPeak find_memory_peak(const LoweredProgram& lowered, const PredictMovement& predict) {
  return MemoryAnalysis(lowered, predict).find();
}

std::int64_t peak_of_movements(const Movements& movements, std::int64_t element_size, TileUse use,
                               const PredictMovement& predict) {
  const auto bytes = [&](const Placement& tiles) {
    return fitting(checked_multiply(tiles.local_size(), element_size));
  };
  const auto peak_of = [&](const Movement& movement, TileUse tiles) {
    return movement.steps.empty() ? bytes(movement.source) : predict(movement, element_size, tiles);
  };
  const Movement& first = *movements.front();
  const std::int64_t first_peak = peak_of(first, use);
  if (movements.size() == 1) return first_peak;
  const Movement& last = *movements.back();
  const bool is_kept = use == TileUse::kept;
  const std::int64_t kept = is_kept ? bytes(first.source) : 0;
  const bool adds_operand = is_kept && first.steps.empty();  // which is counted already
  const std::int64_t partial = adds_operand ? 0 : bytes(first.target());
  const std::int64_t adding = add_bytes(partial, bytes(last.source));
  return std::max(first_peak, add_bytes(kept, std::max(adding, peak_of(last, TileUse::donated))));
}

SourceRange place_of(const MemoryPeak& peak, const Program& program) {
  const Function& function = program.functions[static_cast<std::size_t>(peak.function)];
  if (peak.statement < 0) return function.range;
  const auto statement = static_cast<std::size_t>(peak.statement);
  return statement < function.statements.size() ? function.statements[statement].range : function.return_range;
}

Diagnostic excess_of(const MemoryPeak& peak, const Program& program, std::int64_t limit_bytes) {
  return diagnose(*program.source, place_of(peak, program),
                  fmt::format("{} bytes per device are needed here, and the limit is {}", peak.bytes, limit_bytes),
                  fmt::format("the smallest limit that works is {} bytes; to need less, cut arrays along more axes or "
                              "use values for the last time earlier",
                              peak.bytes));
}

}  // namespace retile::language
