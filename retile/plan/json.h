// Plans as JSON, one per line.
#pragma once

#include <string>

#include "retile/base/diagnostic.h"
#include "retile/plan/plan.h"

namespace retile {

enum class PlanLists {
  when_small,  // up to most_listed_devices
  always,
};

// One line, without its end.
std::string to_json(const Plan& plan, PlanLists lists = PlanLists::when_small);

// Throws InputError where the text is no plan; whether the plan is right is for find_faults() to say.
// A plan without its lists cannot be read back.
Plan parse_plan(const SourceText& source);

}  // namespace retile
