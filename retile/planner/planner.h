// Planners: from a problem to a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "retile/plan/plan.h"
#include "retile/costs/cost_model.h"
#include "retile/planner/problem.h"

namespace retile {

enum class PlannerKind {
  wide,          // slice, one wide alltoall or exchange, gather: the three-step theorem
  paper,         // the paper's collectives, the cheapest sequence of them
  direct,        // one exchange
  gather_slice,  // gather everything, then slice
};

constexpr std::string_view planner_names = "wide, paper, direct, gather-slice";

const char* name_of(PlannerKind kind);
std::optional<PlannerKind> find_planner(std::string_view name);

// Whether wide plans may address single peers.
enum class ExchangeUse { allowed, avoided };

struct PlanOptions {
  PlannerKind planner = PlannerKind::wide;
  const CostModel* cost_model = &paper_model();  // never null
  ExchangeUse exchange = ExchangeUse::allowed;
  std::optional<std::int64_t> memory_limit;  // elements per device; by default the larger of source and target
  double effort = 1;                         // how much longer a plan is looked for than by default, see work_budget.h

  bool operator==(const PlanOptions&) const = default;
};

// Throws InputError where the memory limit is below the larger of source and target, which is always enough.
Plan make_plan(const Problem& problem, const PlanOptions& options = {});

}  // namespace retile
