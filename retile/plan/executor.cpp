#include "retile/plan/executor.h"

#include <utility>

#include "retile/plan/rounds.h"
#include "retile/plan/step_traits.h"

namespace retile {

long double weighted_cost(const Plan& plan, const Executor& executor) {
  long double total = 0;
  bool is_first = true;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    const StepOp op = op_of(plan.steps()[i]);
    long double weight = op == StepOp::exchange ? executor.exchange_weight : 1;
    if (traits_of(op).moves && std::exchange(is_first, false)) weight *= executor.first_weight;
    total += weight * static_cast<long double>(plan.cost.steps[i]);
  }
  return total;
}

bool has_few_rounds(const Plan& plan, const Executor& executor) {
  if (!executor.most_rounds) return true;
  for (std::size_t i = 0; i < plan.steps().size(); ++i) {
    if (op_of(plan.steps()[i]) != StepOp::exchange) continue;
    const std::optional<Rounds> rounds = find_rounds(plan.movement.before(i), plan.steps()[i].after);
    if (rounds && static_cast<std::int64_t>(rounds->exchanged.size()) > *executor.most_rounds) return false;
  }
  return true;
}

}  // namespace retile
