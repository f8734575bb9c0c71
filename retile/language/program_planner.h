// The plans behind a program's statements. Planned once each, for lowering, memory and cost alike.
#pragma once

#include <cstdint>
#include <memory>

#include "retile/language/program.h"
#include "retile/planner/plan_cache.h"
#include "retile/planner/planner.h"

namespace retile::language {

// What a statement moves: the steps of one redistribution, of one collective, or of the two movements of an allreduce.
struct MovementFigures {
  std::int64_t steps = 0;
  std::int64_t cost = 0;            // under the planner's cost model, in elements
  std::int64_t received_bytes = 0;  // at most, per device
  std::int64_t peak_bytes = 0;      // tiles alive at once with the operand donated, per device
};

class ProgramPlanner {
 public:
  // The program must outlive the planner. The memory limit of the options is for single redistributions.
  explicit ProgramPlanner(const Program& program, const PlanOptions& options = {})
      : program_(program), options_(options) {}

  const Program& program() const { return program_; }
  const PlanOptions& options() const { return options_; }

  // Of a Redistribute. Throws InputError at the statement where there is no plan.
  std::shared_ptr<const Plan> redistribution(const Function& function, const Statement& statement);

  // Of a Redistribute, an AllReduce or a Collective. Throws InputError at the statement where a figure does not fit in
  // 63 bits.
  MovementFigures figures(const Function& function, const Statement& statement);

 private:
  std::shared_ptr<const Plan> plan(const DistributedType& source, const DistributedType& target, ElementType element,
                                   const Statement& statement);
  MovementFigures all_reduce_figures(const Function& function, const Statement& statement);
  MovementFigures figures_of(const Movement& movement, ElementType element, const Statement& statement) const;
  // Throws InputError at the statement where there is no number.
  std::int64_t fitting(std::optional<std::int64_t> number, const Statement& statement) const;

  const Program& program_;
  PlanOptions options_;
  PlanCache plans_;
};

// The one operand of a Redistribute, an AllReduce or a Collective, and its result.
const Value& operand_of(const Function& function, const Statement& statement);
const Value& result_of(const Function& function, const Statement& statement);

// Whether the statement is one of these.
bool moves_data(const Statement& statement);

}  // namespace retile::language
