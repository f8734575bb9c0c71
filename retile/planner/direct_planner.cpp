// One exchange from source to target: every device fetches what it lacks, and nothing else moves.
#include "retile/plan/groups.h"
#include "retile/planner/cost_model.h"
#include "retile/planner/lowering.h"
#include "retile/planner/planners.h"

namespace retile {

PlannedSteps plan_direct(const Problem& problem) {
  if (same_placement(problem.source(), problem.target())) return {};
  Step step{StepOp::exchange, {}, {}, {}, {}, problem.source().local_shape(), Placement(problem.target()), 0, true};
  if (received_floor(problem.source(), problem.target()) == 0) {  // every device has all that it needs
    step.op = StepOp::dynslice;
    for (int i = 0; i < problem.source().rank(); ++i) {
      const std::int64_t factor = problem.source().dimension(i).tile / problem.target().dimension(i).tile;
      if (factor > 1) step.moves.push_back({-1, i, factor});
    }
  }
  if (problem.mesh().device_count() <= most_tabled_devices) list_devices(step, Placement(problem.source()));
  return {{std::move(step)}, 0};
}

}  // namespace retile
