// Plans for tests: built step by step, with numbers that are true of them; samples of every kind; random ones.
#pragma once

#include <rapidcheck.h>

#include <string>
#include <vector>

#include "retile/costs/cost_model.h"
#include "retile/plan/plan.h"

namespace retile::test {

// By gather-and-slice, whatever the default planner is.
Plan gather_slice_plan(const DistributedType& source, const DistributedType& target,
                       const CostModel& model = paper_model());

// The plan of these steps, with their costs, local sizes and floor; it is allowed what it takes.
Plan finish_plan(const DistributedType& source, const DistributedType& target, std::vector<Step> steps,
                 const CostModel& model = paper_model());

// The devices whose coordinates differ only along the parts, members ascending.
Groups groups_along(const Mesh& mesh, const std::vector<AxisPart>& parts);

// Devices communicate whose coordinates differ along the parts.
Step slice_step(std::vector<DimensionFactor> slices, const DistributedType& after);
Step alltoall_step(std::vector<Move> moves, const std::vector<AxisPart>& along, const DistributedType& after);
Step gather_step(std::vector<DimensionFactor> gathers, const std::vector<AxisPart>& along,
                 const DistributedType& after);
Step permute_step(const Placement& before, const Placement& after);
// Each device keeps what it can and fetches the rest from the lowest devices that hold it.
Step exchange_step(const Placement& before, const Placement& after);

// The step as it is where device d is called names[d].
Step rename_devices(const Step& step, const std::vector<Device>& names);

// The steps with their lists left to be worked out.
Movement without_lists(Movement movement);

struct SamplePlan {
  std::string name;
  Plan plan;
};
// Small plans that are right: every kind of step, wide and narrow ones, free groups, rank 0.
std::vector<SamplePlan> sample_plans();
const Plan& sample_plan(const std::vector<SamplePlan>& samples, const std::string& name);

// A right plan of up to 6 steps of all kinds on up to 12 devices, half of them between placements that no type has.
rc::Gen<Plan> arbitrary_plan();

// One of the models, to be called while rapidcheck generates.
const CostModel& arbitrary_model();

}  // namespace retile::test
