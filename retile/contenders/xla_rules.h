// XLA's resharding rules: the collectives that its partitioner emits, first match wins, as plans of ours. A model
// from reading the compiler, which shares nothing with our planners; docs/xla-model.md says how well it fits.
#pragma once

#include "retile/costs/cost_model.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile::contenders {

// The planner is called "xla". It knows no memory bound: the peak may exceed source and target. Where the compiler
// would end in a failed check, see xla_fails(), the plan is its last resort: gather everything, then slice.
// Arrays that do not divide are padded for the rules, and clipped in the plan. Throws InputError where the ends have no
// padding in common, are sums or see dimensions in factors, and where the mesh has more than 2^20 devices: plans list
// them.
Plan plan_by_xla_rules(const Problem& problem, const CostModel& model = paper_model());

// True where the rules lead the compiler into a check of its own that fails.
bool xla_fails(const Problem& problem);

}  // namespace retile::contenders
