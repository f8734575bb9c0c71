// XLA's resharding rules: the collectives that its partitioner emits (the first rule that matches wins), as plans. A
// model made by reading the compiler, which shares nothing with our planners; docs/xla-model.md says how well it fits.
#pragma once

#include "retile/costs/cost_model.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile::contenders {

// The plan by XLA's rules; its planner is called "xla". It knows no memory bound: the peak may exceed source and
// target. Where a check inside the compiler would fail, see xla_fails(), the plan is the compiler's last resort: gather
// everything, then slice. Arrays that do not divide are padded for the rules, and clipped in the plan. Throws
// InputError where the ends have no common padding, are sums or see dimensions in factors, and where the mesh has more
// than 2^20 devices, because plans list them.
Plan plan_by_xla_rules(const Problem& problem, const CostModel& model = paper_model());

// The problem as the partitioner sees it: arrays that do not divide are padded. Throws InputError like
// plan_by_xla_rules().
Problem padded_for_xla(const Problem& problem);

// Whether the rules lead to a check inside the compiler that fails.
bool xla_fails(const Problem& problem);

}  // namespace retile::contenders
