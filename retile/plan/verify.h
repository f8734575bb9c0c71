// The verifier: replays a plan box by box and says what is wrong with it. It knows what each step may do, and nothing
// of how plans are made.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// Statements about a plan besides its steps. Those that are absent are not checked.
struct PlanStatements {
  struct OfStep {
    std::optional<Shape> local_in;
    std::optional<Shape> local_out;
    std::optional<Groups> groups;  // of an exchange only
  };
  bool cost = true;
  bool memory = true;
  std::vector<OfStep> steps;  // empty, or one for each step
};

// The faults of a plan, one sentence for each, at most `most`; empty for a plan that is right. Checks that each
// device's box after a step comes from boxes that its group held before it, that every step does what its kind allows,
// that the plan ends in its target, and that its cost, memory and floor are true. Where lists are absent, checks that
// suitable ones exist.
//
// A lower bound is proved by a planner. It is only compared with the plan's own cost here; see planner/bound_check.h.
std::vector<std::string> find_faults(const Plan& plan, const PlanStatements& statements = {}, std::size_t most = 10);

// Faults of the steps alone, not of their costs.
std::vector<std::string> find_faults(const Movement& movement, std::size_t most = 10);

}  // namespace retile
