// The direct planner: one exchange from source to target, in which every device fetches what it lacks and nothing else
// moves.
#include "retile/costs/cost_model.h"
#include "retile/planner/lowering.h"
#include "retile/planner/planned_steps.h"

namespace retile {
namespace {

// The most pieces that are listed with the plan. An exchange between boxes may have one for each pair of devices;
// longer lists are made when somebody asks for them.
constexpr std::size_t most_listed_pieces = 2048;

}  // namespace

PlannedSteps plan_direct(const TypedProblem& problem) {
  Step step{ExchangeStep{}, Placement(problem.target())};
  if (received_floor(problem.source(), problem.target()) == 0) {  // every device has all that it needs
    step.operation = SliceStep{factors_between(grid_of(problem.source()), grid_of(problem.target()))};
  }
  return {{std::move(step)}, 0};
}

PlannedSteps plan_boxes(const Placement& source, const Placement& target) {
  const bool may_be_unlisted = goes_by_boxes(source, target);
  auto pieces = shared_pieces(source, target, may_be_unlisted ? most_listed_pieces : SIZE_MAX);
  if (pieces && pieces->empty()) {
    const bool is_even = source.type() != nullptr && target.type() != nullptr;
    SliceStep slice;
    if (is_even) slice.slices = factors_between(grid_of(*source.type()), grid_of(*target.type()));
    return {{{std::move(slice), target}}, 0};
  }
  PlannedSteps planned;
  planned.steps.push_back({ExchangeStep{std::move(pieces)}, target});  // an initializer list would copy it
  return planned;
}

}  // namespace retile
