// Gather everything, then slice (eq:naive-redistribution). The baseline that every plan must beat: on the way every
// device holds the whole array.
#include "retile/grids/grid.h"
#include "retile/planner/planned_steps.h"

namespace retile {

PlannedSteps plan_gather_slice(const TypedProblem& problem) {
  const Grid source = grid_of(problem.source());
  const Grid target = grid_of(problem.target());
  std::vector<Dimension> dimensions = problem.source().dimensions();
  PlannedSteps planned;
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    const bool is_cut = source[i] > 1;
    dimensions[i] = {dimensions[i].global, {}, dimensions[i].global};
    if (!is_cut) continue;
    planned.steps.push_back(
        {GatherStep{{{static_cast<int>(i), source[i]}}, {}}, Placement(DistributedType(problem.mesh(), dimensions))});
  }
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    if (target[i] == 1) continue;
    dimensions[i] = problem.target().dimension(static_cast<int>(i));
    planned.steps.push_back(
        {SliceStep{{{static_cast<int>(i), target[i]}}}, Placement(DistributedType(problem.mesh(), dimensions))});
  }
  return planned;
}

}  // namespace retile
