// Contenders, by name: our planners, other systems' rules and the floor.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/plan/plan.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

// One way to solve one problem.
struct Contender {
  std::string name;
  std::optional<Plan> plan;  // nothing where there are no steps to show
  Placement source;          // what the devices start from; the floor starts from the target
  std::function<std::unique_ptr<PreparedRun>(Engine& engine)> prepare;
};

constexpr std::string_view contender_names =
    "auto, paper, wide, direct, two-level, collectives, gather-slice, xla, dtensor-costs, memcpy";

bool is_contender(std::string_view name);

// Makes a contender's plan, which the verifier checks. "auto" uses all of the options; the others use their executor,
// and are timed on their machine. "collectives" are wide plans without exchanges. "dtensor-costs" is what "auto" takes
// by the constants in DTensor's source on the machine's hosts. Throws InputError or RuntimeError where a plan cannot be
// made.
Contender make_contender(const std::string& name, const Problem& problem, const PlanOptions& options = {});

}  // namespace retile::evaluation
