// Plans for tests: built step by step, with numbers that are true of them; samples of every kind; random ones.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "retile/plan/plan.h"
#include "retile/costs/cost_model.h"

namespace retile::test {

// By gather-and-slice, whatever the default planner is.
Plan gather_slice_plan(const DistributedType& source, const DistributedType& target,
                       CostModel model = CostModel::paper);

// The plan of these steps, with their costs, local sizes and floor.
Plan finish_plan(const DistributedType& source, const DistributedType& target, std::vector<Step> steps,
                 CostModel model = CostModel::paper);

// A dynslice, alltoall or allgather; devices communicate whose coordinates differ along the parts.
Step collective_step(StepOp op, std::vector<Move> moves, std::vector<AxisPart> along, const DistributedType& before,
                     const DistributedType& after);
Step permute_step(const Placement& before, const Placement& after);
// Each device keeps what it can and fetches the rest from the lowest devices that hold it.
Step exchange_step(const Placement& before, const Placement& after);

// The step as it is where device d is called names[d].
Step rename_devices(const Step& step, const Mesh& mesh, const std::vector<Device>& names);

struct SamplePlan {
  std::string name;
  Plan plan;
};
// Small plans that are right: every kind of step, wide and narrow ones, free groups, rank 0.
std::vector<SamplePlan> sample_plans();
const Plan& sample_plan(const std::vector<SamplePlan>& samples, const std::string& name);

// A right plan of up to 6 steps of all kinds on up to 12 devices, half of them between placements that no type has.
rc::Gen<Plan> arbitrary_plan();

}  // namespace retile::test
