// One exchange from source to target: every device fetches what it lacks, and nothing else moves.
#include "retile/costs/cost_model.h"
#include "retile/planner/lowering.h"
#include "retile/planner/planned_steps.h"

namespace retile {

PlannedSteps plan_direct(const TypedProblem& problem) {
  Step step{ExchangeStep{}, Placement(problem.target())};
  if (received_floor(problem.source(), problem.target()) == 0) {  // every device has all that it needs
    step.operation = SliceStep{factors_between(grid_of(problem.source()), grid_of(problem.target()))};
  }
  if (problem.mesh().device_count() <= most_tabled_devices) list_devices(step, Placement(problem.source()));
  return {{std::move(step)}, 0};
}

}  // namespace retile
