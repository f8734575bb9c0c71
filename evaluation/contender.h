// What is measured: planners of ours, others' rules and the floor, by name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/plan/executor.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"

namespace retile::evaluation {

// One way to do one problem.
struct Contender {
  std::string name;
  std::optional<Plan> plan;  // nothing where there are no steps to show
  Placement source;          // what the devices start from; the floor starts from the target
  std::function<std::unique_ptr<PreparedRun>(Engine& engine)> prepare;
};

constexpr std::string_view contender_names = "auto, paper, wide, direct, gather-slice, xla, memcpy";

bool is_contender(std::string_view name);

// Plans are made here, "auto" for the executor, and checked by the verifier. Throws InputError or RuntimeError where
// that fails.
Contender make_contender(const std::string& name, const Problem& problem, const Executor& executor = {});

}  // namespace retile::evaluation
