// Planners: from a problem to a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "retile/costs/cost_model.h"
#include "retile/plan/executor.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile {

enum class PlannerKind {
  automatic,     // the cheapest plan that fits the memory limit and that the executor can carry out
  wide,          // slice, one wide alltoall or exchange, gather: the three-step theorem
  paper,         // the paper's collectives, the cheapest sequence of them
  direct,        // one exchange
  lean,          // that of wide, direct and paper whose run takes the least memory
  gather_slice,  // gather everything, then slice
};

constexpr std::string_view planner_names = "auto, wide, paper, direct, lean, gather-slice";

const char* name_of(PlannerKind kind);
std::optional<PlannerKind> find_planner(std::string_view name);

struct PlanOptions {
  PlannerKind planner = PlannerKind::automatic;
  const CostModel* cost_model = &paper_model();  // never null
  Executor executor;                             // who will run the plan

  // What the run of the plan may hold at once, in bytes per device (plan/memory.h).
  std::optional<std::int64_t> memory_limit;
  TileUse tiles = TileUse::kept;
  double effort = 1;  // how much longer a plan is looked for than by default, see work_budget.h

  bool operator==(const PlanOptions&) const = default;
};

// The plan names the planner that made it: never auto or lean. Throws InputError with the smallest limit that works
// where the plan's run does not fit the memory limit.
Plan make_plan(const Problem& problem, const PlanOptions& options = {});

}  // namespace retile
