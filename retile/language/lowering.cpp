#include "retile/language/lowering.h"

#include <map>
#include <utility>
#include <variant>

#include "retile/language/all_reduce.h"
#include "retile/planner/plan_cache.h"

namespace retile::language {
namespace {

class Lowering {
 public:
  Lowering(const Program& program, const PlanOptions& options) : program_(program), options_(options) {}

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

 private:
  std::shared_ptr<const Plan> plan(const DistributedType& source, const DistributedType& target, ElementType element,
                                   const Statement& statement) {
    try {
      return planner_.plan(Problem({}, source, target, element), options_);
    } catch (const InputError& error) {
      const Diagnostic& fault = error.diagnostic();
      throw InputError(diagnose(*program_.source, statement.range, fault.message, fault.hint));
    }
  }

  std::shared_ptr<const Movement> movement_of(const std::shared_ptr<const Plan>& plan) {
    std::shared_ptr<const Movement>& movement = movements_[plan];
    if (!movement) movement = std::make_shared<const Movement>(retile::movement_of(*plan));
    return movement;
  }

  const Program& program_;
  const PlanOptions& options_;
  Planner planner_;
  std::map<std::shared_ptr<const Plan>, std::shared_ptr<const Movement>> movements_;
};

}  // namespace

LoweredProgram lower_program(Program program, const PlanOptions& options) {
  LoweredProgram lowered{std::move(program), options, {}};
  Lowering lowering(lowered.program, options);
  for (const Function& function : lowered.program.functions) {
    std::vector<LoweredStatement>& statements = lowered.statements.emplace_back();
    for (const Statement& statement : function.statements) statements.push_back(lowering.lower(function, statement));
  }
  return lowered;
}

}  // namespace retile::language
