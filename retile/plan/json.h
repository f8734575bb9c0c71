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
  when_small,  // up to most_listed_devices
  always,
};

// One line, without its end; `write` gets it piece by piece, as a plan's lists may be long.
using WriteText = std::function<void(std::string_view text)>;
void write_json(const Plan& plan, PlanLists lists, const WriteText& write);
std::string to_json(const Plan& plan, PlanLists lists = PlanLists::when_small);

// A plan that somebody wrote: mesh, source, target and steps, and what they say of it besides. What they do not say is
// left empty.
struct StatedPlan {
  Plan plan;
  PlanStatements statements;
};

// Throws InputError where the text is no plan; whether the plan is right is for find_faults() to say.
// A plan without its lists cannot be read back.
StatedPlan parse_plan(const SourceText& source);

}  // namespace retile
