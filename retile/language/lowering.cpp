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

// --- Allreduce: the partial sums are redistributed, added locally, and the sums gathered.

// The devices' tiles, n elements each, seen as an array in which every device has a row of its own. "Others" are the
// mesh axes that are not summed over now, N their product, and k that of the axes that are:
//
//   partial    [1{others}N, 1{summed}k, n]       what the devices hold
//   to_add     [1{others}N, k, (n/k){summed}n]   n instead of (n/k){summed}n where k does not divide n
//   sums       [1{others}N, (n/k){summed}n]      dimension 1 of to_add added up in order
//   result     [1{others}N, n]
//
// The partial tiles of a sum are numbered row-major along the summed axes, the first axis slowest: every device adds in
// that order, so replicas of the result have the same bits.
struct AllReduceTypes {
  DistributedType partial;
  DistributedType to_add;
  DistributedType sums;
  DistributedType result;
};

// One row for each combination of coordinates along the parts, given minor to major.
Dimension rows_along(const std::vector<AxisPart>& parts) {
  std::int64_t count = 1;  // at most the number of devices
  for (const AxisPart& part : parts) count *= part.size;
  return {1, parts, count};
}

Dimension uncut(std::int64_t size) { return {size, {}, size}; }

// Throws InputError where the whole has too many elements.
AllReduceTypes all_reduce_types(const Mesh& mesh, const ArrayType& operand, const ArrayType& result) {
  std::vector<AxisPart> summed;
  std::vector<AxisPart> others;
  const auto sums_over = [](const ArrayType& type, int axis) {
    return std::count(type.sums.begin(), type.sums.end(), axis) > 0;
  };
  for (int axis = mesh.axis_count() - 1; axis >= 0; --axis) {  // minor to major is the last axis first
    (sums_over(operand, axis) && !sums_over(result, axis) ? summed : others).push_back(mesh.whole(axis));
  }
  const Dimension rows = rows_along(others);
  const Dimension partial_rows = rows_along(summed);
  const std::int64_t count = partial_rows.global;
  const std::int64_t size = operand.placement.local_size();
  const Dimension shares = size % count == 0 ? Dimension{size / count, summed, size} : uncut(size);
  return {DistributedType(mesh, {rows, partial_rows, uncut(size)}), DistributedType(mesh, {rows, uncut(count), shares}),
          DistributedType(mesh, {rows, shares}), DistributedType(mesh, {rows, uncut(size)})};
}

// --- Statements.

class Lowering {
 public:
  Lowering(const Program& program, const PlanOptions& options) : program_(program), options_(options) {}

  std::vector<LoweredStatement> lower(const Function& function) {
    const std::vector<int> last = last_uses(function);
    std::vector<LoweredStatement> lowered;
    for (const Statement& statement : function.statements) {
      const auto number = static_cast<int>(lowered.size());
      const bool is_kept = moves_data(statement) && last[operand_number(statement)] > number;
      // What takes the least memory depends on it, and nothing else does: plans are shared by more statements.
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
      return {{std::make_shared<const Movement>(Movement{program_.mesh, from.placement, {op->step}})}, nullptr};
    }
    if (std::holds_alternative<AllReduce>(statement.operation)) {
      const AllReduceTypes types = all_reduce_types(program_.mesh, from, to);
      return {{movement_of(plan(types.partial, types.to_add, from.element, statement)),
               movement_of(plan(types.sums, types.result, from.element, statement))},
              nullptr};
    }
    const auto redistribution = plan(*from.placement.type(), *to.placement.type(), from.element, statement);
    return {{movement_of(redistribution)}, redistribution};
  }

  std::shared_ptr<const Plan> plan(const DistributedType& source, const DistributedType& target, ElementType element,
                                   const Statement& statement) {
    try {
      return plans_.plan(Problem({}, source, target, element), options_);
    } catch (const InputError& error) {
      const Diagnostic& fault = error.diagnostic();
      throw InputError(diagnose(*program_.source, statement.range, fault.message, fault.hint));
    }
  }

  static std::shared_ptr<const Movement> movement_of(const std::shared_ptr<const Plan>& plan) {
    return {plan, &plan->movement};
  }

  const Program& program_;
  PlanOptions options_;
  PlanCache plans_;
};

constexpr int most_nested_calls = 1000;  // each takes room on the stack, of what counts and of what runs

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
  Lowering lowering(lowered.program, options);
  for (const Function& function : lowered.program.functions) lowered.statements.push_back(lowering.lower(function));
  return lowered;
}

}  // namespace

LoweredProgram lower_program(Program program, const PlanOptions& options) {
  require_shallow_calls(program);
  const bool is_automatic = options.planner == PlannerKind::automatic;
  LoweredProgram lowered = lower_by(is_automatic ? PlannerKind::wide : options.planner, std::move(program), options);
  if (!options.memory_limit) return lowered;
  MemoryPeak peak = find_memory_peak(lowered, options.engine);
  if (peak.bytes > *options.memory_limit && is_automatic) {
    LoweredProgram lean = lower_by(PlannerKind::lean, lowered.program, options);
    const MemoryPeak lean_peak = find_memory_peak(lean, options.engine);
    if (lean_peak.bytes < peak.bytes) {
      lowered = std::move(lean);
      peak = lean_peak;
    }
  }
  if (peak.bytes > *options.memory_limit) throw InputError(excess_of(peak, lowered.program, *options.memory_limit));
  return lowered;
}

}  // namespace retile::language
