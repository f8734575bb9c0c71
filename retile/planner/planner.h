// Planners: from a problem to a plan.
#pragma once

#include <optional>
#include <string_view>

#include "retile/plan/plan.h"
#include "retile/planner/cost_model.h"
#include "retile/planner/problem.h"

namespace retile {

enum class PlannerKind { gather_slice };

constexpr std::string_view planner_names = "gather-slice";

const char* name_of(PlannerKind kind);
std::optional<PlannerKind> find_planner(std::string_view name);

struct PlanOptions {
  PlannerKind planner = PlannerKind::gather_slice;
  CostModel cost_model = CostModel::paper;
};

Plan make_plan(const Problem& problem, const PlanOptions& options = {});

}  // namespace retile
