#include "retile/language/program_planner.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/language/all_reduce.h"
#include "retile/costs/cost_model.h"

namespace retile::language {
namespace {

const Value& value_of(const Function& function, int index) { return function.values[static_cast<std::size_t>(index)]; }

std::optional<int> operand_index(const Statement& statement) {
  if (const auto* op = std::get_if<Redistribute>(&statement.operation)) return op->operand;
  if (const auto* op = std::get_if<AllReduce>(&statement.operation)) return op->operand;
  if (const auto* op = std::get_if<Collective>(&statement.operation)) return op->operand;
  return std::nullopt;
}

}  // namespace

bool moves_data(const Statement& statement) { return operand_index(statement).has_value(); }

const Value& operand_of(const Function& function, const Statement& statement) {
  const std::optional<int> index = operand_index(statement);
  ensure(index.has_value(), "a statement that moves data has an operand");
  return value_of(function, *index);
}

const Value& result_of(const Function& function, const Statement& statement) {
  return value_of(function, statement.results.front());
}

std::int64_t ProgramPlanner::fitting(std::optional<std::int64_t> number, const Statement& statement) const {
  if (number) return *number;
  throw InputError(
      diagnose(*program_.source, statement.range, "the cost or memory of this statement does not fit in 63 bits"));
}

std::shared_ptr<const Plan> ProgramPlanner::plan(const DistributedType& source, const DistributedType& target,
                                                 ElementType element, const Statement& statement) {
  try {
    return plans_.plan(Problem({}, source, target, element), options_);
  } catch (const InputError& error) {
    const Diagnostic& fault = error.diagnostic();
    throw InputError(diagnose(*program_.source, statement.range, fault.message, fault.hint));
  }
}

std::shared_ptr<const Plan> ProgramPlanner::redistribution(const Function& function, const Statement& statement) {
  const ArrayType& source = operand_of(function, statement).type;
  const ArrayType& target = result_of(function, statement).type;
  return plan(*source.placement.type(), *target.placement.type(), source.element, statement);
}

MovementFigures ProgramPlanner::figures_of(const Movement& movement, ElementType element,
                                           const Statement& statement) const {
  MovementFigures figures;
  figures.steps = static_cast<std::int64_t>(movement.steps.size());
  std::int64_t received = 0;
  std::int64_t peak = movement.source.local_size();
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    const Step& step = movement.steps[i];
    const Placement& before = movement.before(i);
    figures.cost = fitting(checked_add(figures.cost, step_cost(*options_.cost_model, step, before)), statement);
    received = fitting(checked_add(received, step_cost(volume_model(), step, before)), statement);
    peak = std::max(peak, fitting(checked_add(before.local_size(), step.after.local_size()), statement));
  }
  figures.received_bytes = fitting(checked_multiply(received, bytes_of(element)), statement);
  figures.peak_bytes = fitting(checked_multiply(peak, bytes_of(element)), statement);
  return figures;
}

// The partial sums are redistributed and added up, and the sums gathered.
MovementFigures ProgramPlanner::all_reduce_figures(const Function& function, const Statement& statement) {
  const ArrayType& operand = operand_of(function, statement).type;
  const AllReduceTypes types = all_reduce_types(program_.mesh, operand, result_of(function, statement).type);
  const auto scatter = plan(types.partial, types.to_add, operand.element, statement);
  const auto gather = plan(types.sums, types.result, operand.element, statement);
  const MovementFigures first = figures_of(scatter->movement, operand.element, statement);
  const MovementFigures last = figures_of(gather->movement, operand.element, statement);
  const auto adding = checked_add(types.to_add.local_size(), types.sums.local_size());
  const std::int64_t adding_bytes =
      fitting(adding ? checked_multiply(*adding, bytes_of(operand.element)) : std::nullopt, statement);
  return {first.steps + last.steps, fitting(checked_add(first.cost, last.cost), statement),
          fitting(checked_add(first.received_bytes, last.received_bytes), statement),
          std::max({first.peak_bytes, adding_bytes, last.peak_bytes})};
}

MovementFigures ProgramPlanner::figures(const Function& function, const Statement& statement) {
  if (std::holds_alternative<AllReduce>(statement.operation)) return all_reduce_figures(function, statement);
  const ArrayType& operand = operand_of(function, statement).type;
  if (const auto* collective = std::get_if<Collective>(&statement.operation)) {
    return figures_of({program_.mesh, operand.placement, {collective->step}}, operand.element, statement);
  }
  return figures_of(redistribution(function, statement)->movement, operand.element, statement);
}

}  // namespace retile::language
