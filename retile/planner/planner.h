// Planners: from a problem to a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "retile/costs/cost_model.h"
#include "retile/costs/seconds.h"
#include "retile/plan/executor.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile {

enum class PlannerKind {
  automatic,     // the cheapest plan that fits the memory limit and that the executor can carry out
  wide,          // slice, one wide alltoall or exchange, gather: the three-step theorem
  paper,         // the cheapest sequence of the paper's collectives
  direct,        // one exchange
  lean,          // the plan of wide, direct or paper whose run takes the least memory
  gather_slice,  // gather everything, then slice
  two_level,     // an exchange inside hosts and one across, in the faster order on the machine
};

constexpr std::string_view planner_names = "auto, wide, paper, direct, lean, gather-slice, two-level";

const char* name_of(PlannerKind kind);
std::optional<PlannerKind> find_planner(std::string_view name);

struct PlanOptions {
  PlannerKind planner = PlannerKind::automatic;
  const CostModel* cost_model = &paper_model();  // never null
  // The machine that plans are timed on; null: none. Where it is also the cost model, `auto` takes the fastest plan,
  // and Executor::exchange_weight is ignored: the machine's latencies and rates tell what exchanges take.
  const SecondsModel* machine = nullptr;
  Executor executor;  // what will run the plan

  // The most bytes that the plan's run may hold at once on each device (plan/memory.h).
  std::optional<std::int64_t> memory_limit;
  TileUse tiles = TileUse::kept;
  double effort = 1;  // multiplies the work of the search, see work_budget.h

  bool operator==(const PlanOptions&) const = default;
};

// The options with the machine as cost model: `auto` takes the plan that is predicted to be the fastest.
PlanOptions on_machine(const Machine& machine, PlanOptions options = {});

// Times the plan on the options' machine, if there is one. Where the machine is the cost model, times become the plan's
// costs. Only for plans made elsewhere: make_plan() times its own. The machine must have as many devices as the plan.
void add_time(Plan& plan, const PlanOptions& options, std::int64_t element_size);

// Plans the problem. The plan names the planner that made it: never auto or lean. Throws InputError where the plan's
// run does not fit the memory limit (with the smallest limit that works), and where the machine has another number of
// devices.
Plan make_plan(const Problem& problem, const PlanOptions& options = {});

}  // namespace retile
