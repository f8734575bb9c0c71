#include "retile/language/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "retile/language/liveness.h"
#include "retile/language/memory.h"
#include "retile/planner/plan_cache.h"

namespace retile::language {
namespace {

class StatementLowering {
 public:
  StatementLowering(const Program& program, const PlanOptions& options) : program_(program), options_(options) {}

  std::vector<LoweredStatement> lower(const Function& function) {
    const std::vector<int> last = last_uses(function);
    std::vector<LoweredStatement> lowered;
    for (const Statement& statement : function.statements) {
      const auto number = static_cast<int>(lowered.size());
      const bool is_kept = moves_data(statement) && last[operand_number(statement)] > number;
      // Only lean plans depend on whether tiles are kept. Ignoring it otherwise lets more statements share a plan.
      options_.tiles = is_kept && options_.planner == PlannerKind::lean ? TileUse::kept : TileUse::donated;
      lowered.push_back(lower(function, statement));
    }
    return lowered;
  }

 private:
  static std::size_t operand_number(const Statement& statement) {
    return static_cast<std::size_t>(operands_of(statement).front());
  }

  LoweredStatement lower(const Function& function, const Statement& statement) {
    if (!moves_data(statement)) return {};
    const ArrayType& from = operand_of(function, statement).type;
    const ArrayType& to = result_of(function, statement).type;
    if (const auto* op = std::get_if<StepStatement>(&statement.operation)) {
      return {std::make_shared<const Movement>(Movement{program_.mesh, from.placement, {op->step}}), nullptr};
    }
    std::shared_ptr<const Plan> plan = plan_between(from, to, statement);
    return {{plan, &plan->movement}, plan};
  }

  std::shared_ptr<const Plan> plan_between(const ArrayType& from, const ArrayType& to, const Statement& statement) {
    try {
      return plans_.plan(Problem({}, *layout_of(from), *layout_of(to), from.element), options_);
    } catch (const InputError& error) {
      const Diagnostic& fault = error.diagnostic();
      throw InputError(diagnose(*program_.source, statement.range, fault));
    }
  }

  const Program& program_;
  PlanOptions options_;
  PlanCache plans_;
};

constexpr int most_nested_calls = 1000;  // each takes stack, when memory is counted and when it runs

void require_shallow_calls(const Program& program) {
  std::vector<int> depth(program.functions.size(), 1);  // callees come before callers
  for (std::size_t f = 0; f < depth.size(); ++f) {
    for (const Statement& statement : program.functions[f].statements) {
      const auto* call = std::get_if<Call>(&statement.operation);
      if (call != nullptr) depth[f] = std::max(depth[f], at(depth, call->function) + 1);
    }
    if (depth[f] <= most_nested_calls) continue;
    throw InputError(diagnose(*program.source, program.functions[f].range,
                              fmt::format("calls nest deeper than {}", most_nested_calls)));
  }
}

LoweredProgram lower_by(PlannerKind planner, Program program, PlanOptions options) {
  options.planner = planner;
  options.memory_limit.reset();
  LoweredProgram lowered{std::move(program), options, {}};
  StatementLowering lowering(lowered.program, options);
  for (const Function& function : lowered.program.functions) lowered.statements.push_back(lowering.lower(function));
  return lowered;
}

}  // namespace

LoweredProgram lower_program(Program program, const PlanOptions& options) {
  require_shallow_calls(program);
  LoweredProgram lowered = lower_by(options.planner, std::move(program), options);
  if (!options.memory_limit) return lowered;
  MemoryPeak peak = find_memory_peak(lowered, options.executor.memory);
  if (peak.bytes > *options.memory_limit && options.planner == PlannerKind::automatic) {
    LoweredProgram lean = lower_by(PlannerKind::lean, lowered.program, options);
    const MemoryPeak lean_peak = find_memory_peak(lean, options.executor.memory);
    if (lean_peak.bytes < peak.bytes) {
      lowered = std::move(lean);
      peak = lean_peak;
    }
  }
  if (peak.bytes > *options.memory_limit) throw InputError(excess_of(peak, lowered.program, *options.memory_limit));
  return lowered;
}

}  // namespace retile::language
