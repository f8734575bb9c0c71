// Plans as JSON, one per line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "retile/base/diagnostic.h"
#include "retile/plan/plan.h"
#include "retile/plan/verify.h"

namespace retile {

enum class PlanLists {
  when_small,  // for up to most_listed_devices devices
  always,
};

// Writes the plan as one line without its end. `write` receives it piece by piece, because a plan's lists may be long.
using WriteText = std::function<void(std::string_view text)>;
void write_json(const Plan& plan, PlanLists lists, const WriteText& write);
std::string to_json(const Plan& plan, PlanLists lists = PlanLists::when_small);

// A plan from elsewhere: mesh, source, target and steps, and what its author states besides. What is not stated is left
// empty.
struct StatedPlan {
  Plan plan;
  PlanStatements statements;
};

// Throws InputError where the text is no plan. find_faults() tells whether the plan is right. A plan without its lists
// cannot be read back.
StatedPlan parse_plan(const SourceText& source);

}  // namespace retile
