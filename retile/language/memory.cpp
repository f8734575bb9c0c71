#include "retile/language/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <variant>
#include <vector>

#include "retile/base/error.h"
#include "retile/language/liveness.h"
#include "retile/plan/memory_meter.h"

namespace retile::language {
namespace {

constexpr int never = std::numeric_limits<int>::max();

// The most ways to call a function that are counted separately. Others are counted as if its arguments were different
// arrays that callers need after the call.
constexpr std::size_t most_contexts = 64;

// A way to call a function. Both lists are by parameter.
struct Context {
  std::vector<int> same_as;  // the first parameter that has the same array
  std::vector<bool> kept;    // whether the array is needed after the call

  auto operator<=>(const Context&) const = default;  // NOLINT(modernize-use-nullptr): seen in what it stands for
};

Context distinct_arguments(const Function& function, bool kept) {
  const auto count = static_cast<std::size_t>(function.parameter_count);
  return {numbers_below<int>(count), std::vector<bool>(count, kept)};
}

// A function's arrays in one context. An array is named by the first value that has it.
struct CallArrays {
  int index;
  const Function& function;
  std::vector<int> by_value;  // the array of each value
  std::vector<int> last;      // by array: the statement of its last use; `never` where the caller needs it

  int array(int value) const { return at(by_value, value); }
  int last_use(int array) const { return at(last, array); }
  std::int64_t bytes(int array) const { return bytes_of(at(function.values, array).type); }
  template <typename Values>
  std::int64_t sum(const Values& values) const {
    std::int64_t sum = 0;
    for (const int value : values) sum = add_bytes(sum, bytes(value));
    return sum;
  }
  std::set<int> operands(const Statement& statement) const {
    std::set<int> operands;
    for (const int value : operands_of(statement)) operands.insert(array(value));
    return operands;
  }
};

class MemoryAnalysis {
 public:
  MemoryAnalysis(const LoweredProgram& lowered, const EngineMemory& engine)
      : lowered_(lowered), program_(lowered.program), engine_(engine), peaks_(program_.functions.size()) {
    for (std::size_t i = 0; i < program_.functions.size(); ++i) {  // callees come first
      last_uses_.push_back(last_uses(program_.functions[i]));
      owners_.push_back(find_owners(program_.functions[i], lowered.statements[i]));
    }
  }

  MemoryPeak find() { return peak_of(program_.main, distinct_arguments(main_of(program_), false)); }

 private:
  // --- Arrays.

  // By value: the first value of the function that has the same array in every context.
  std::vector<int> find_owners(const Function& function, const std::vector<LoweredStatement>& lowered) const {
    std::vector<int> owners = numbers_below<int>(function.values.size());
    for (std::size_t i = 0; i < lowered.size(); ++i) {
      const Statement& statement = function.statements[i];
      const Movement* movement = lowered[i].movement.get();
      if (const auto* call = std::get_if<Call>(&statement.operation)) {
        find_owners(*call, statement.results, owners);
      } else if (movement != nullptr && movement->steps.empty()) {
        at(owners, statement.results.front()) = at(owners, operands_of(statement).front());
      }
    }
    return owners;
  }

  // Finds the owners of a call's results. The callee may return arrays that it was given, and may return an array
  // several times.
  void find_owners(const Call& call, const std::vector<int>& results, std::vector<int>& owners) const {
    const Function& callee = at(program_.functions, call.function);
    std::map<int, int> made;  // by the callee's array: the first result that has it
    for (std::size_t i = 0; i < results.size(); ++i) {
      const int array = at(at(owners_, call.function), callee.results[i]);
      const bool is_given = array < callee.parameter_count;
      at(owners, results[i]) =
          is_given ? at(owners, at(call.operands, array)) : made.try_emplace(array, results[i]).first->second;
    }
  }

  CallArrays arrays_of(int index, const Context& context) const {
    const std::vector<int>& owners = at(owners_, index);
    CallArrays arrays{index, at(program_.functions, index), owners, std::vector<int>(owners.size(), -1)};
    for (std::size_t value = 0; value < owners.size(); ++value) {
      const bool is_given = owners[value] < arrays.function.parameter_count;
      if (is_given) arrays.by_value[value] = at(context.same_as, owners[value]);
      int& last = at(arrays.last, arrays.by_value[value]);
      last = std::max(last, is_given && at(context.kept, owners[value]) ? never : at(last_uses_, index)[value]);
    }
    return arrays;
  }

  [[gnu::noinline]] static Context context_of(const CallArrays& arrays, const Call& call, int statement) {
    Context context;
    std::map<int, int> first;  // by array: its first parameter
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      const int array = arrays.array(call.operands[i]);
      context.same_as.push_back(first.try_emplace(array, static_cast<int>(i)).first->second);
      context.kept.push_back(arrays.last_use(array) > statement);
    }
    return context;
  }

  // --- Bytes.

  // The peak of a function in a context, computed once however often it is called.
  const MemoryPeak& peak_of(int function, Context context) {
    std::map<Context, MemoryPeak>& peaks = at(peaks_, function);
    const bool is_full = peaks.size() >= most_contexts && !peaks.contains(context);
    if (is_full) context = distinct_arguments(at(program_.functions, function), true);
    const auto [entry, is_new] = peaks.try_emplace(context);
    if (is_new) entry->second = measure(arrays_of(function, context));
    return entry->second;
  }

  template <typename Count>
  std::int64_t count_at(SourceRange place, Count count) const {
    try {
      return count();
    } catch (const RuntimeError&) {
      throw InputError(diagnose(*program_.source, place, "the memory that is needed here does not fit in 63 bits"));
    }
  }

  MemoryPeak measure(const CallArrays& arrays) {
    const Function& function = arrays.function;
    std::set<int> parameters(arrays.by_value.begin(), arrays.by_value.begin() + function.parameter_count);
    std::int64_t live = count_at(function.range, [&] { return arrays.sum(parameters); });
    MemoryPeak peak{live, arrays.index, -1};
    std::erase_if(parameters, [&](int array) { return arrays.last_use(array) >= 0; });
    live -= arrays.sum(parameters);
    for (int i = 0; i < static_cast<int>(function.statements.size()); ++i) {
      const MemoryPeak here = measure_statement(arrays, i, live);
      if (here.bytes > peak.bytes) peak = here;
      for (const int array : arrays.operands(at(function.statements, i))) {
        if (arrays.last_use(array) <= i) live -= arrays.bytes(array);
      }
      for (const int result : at(function.statements, i).results) {  // fits: these are part of the peak
        if (arrays.array(result) == result && arrays.last_use(result) > i) live += arrays.bytes(result);
      }
    }
    if (arrays.index != program_.main) return peak;
    const std::int64_t returned = count_at(function.return_range, [&] { return arrays.sum(function.results); });
    if (returned <= peak.bytes) return peak;
    return {returned, arrays.index, static_cast<int>(function.statements.size())};
  }

  // The peak of a statement. `live` counts the bytes of arrays that are alive before it.
  MemoryPeak measure_statement(const CallArrays& arrays, int number, std::int64_t live) {
    const Statement& statement = at(arrays.function.statements, number);
    const auto* call = std::get_if<Call>(&statement.operation);
    if (call == nullptr) return {measure_alone(arrays, number, live), arrays.index, number};
    MemoryPeak peak = peak_of(call->function, context_of(arrays, *call, number));
    peak.bytes =
        count_at(statement.range, [&] { return add_bytes(live - arrays.sum(arrays.operands(statement)), peak.bytes); });
    return peak;
  }

  // The peak of a statement without calls. Not inlined, to keep stack frames of nested calls small.
  [[gnu::noinline]] std::int64_t measure_alone(const CallArrays& arrays, int number, std::int64_t live) const {
    const Statement& statement = at(arrays.function.statements, number);
    if (const auto* op = std::get_if<SpmdOp>(&statement.operation)) {
      return count_at(statement.range, [&] { return add_bytes(live, local_peak_bytes(op->body)); });
    }
    const int operand = *arrays.operands(statement).begin();
    const TileUse use = arrays.last_use(operand) > number ? TileUse::kept : TileUse::donated;
    const Movement& movement = *at(at(lowered_.statements, arrays.index), number).movement;
    const std::int64_t size = retile::bytes_of(at(arrays.function.values, operand).type.element);
    return count_at(statement.range, [&] {
      return add_bytes(live - arrays.bytes(operand), peak_of_movement(movement, size, use, engine_));
    });
  }

  const LoweredProgram& lowered_;
  const Program& program_;
  const EngineMemory engine_;
  std::vector<std::vector<int>> last_uses_;           // by function and value
  std::vector<std::vector<int>> owners_;              // by function and value
  std::vector<std::map<Context, MemoryPeak>> peaks_;  // by function
};

}  // namespace

MemoryPeak find_memory_peak(const LoweredProgram& lowered, const EngineMemory& engine) {
  return MemoryAnalysis(lowered, engine).find();
}

std::int64_t peak_of_movement(const Movement& movement, std::int64_t element_size, TileUse use,
                              const EngineMemory& engine) {
  if (!movement.steps.empty()) return predict_peak_bytes(movement, element_size, use, engine);
  return fitting(checked_multiply(movement.source.local_size(), element_size));
}

SourceRange place_of(const MemoryPeak& peak, const Program& program) {
  const Function& function = at(program.functions, peak.function);
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
