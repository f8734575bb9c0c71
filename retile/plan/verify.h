// The verifier: replays a plan box by box and says what is wrong with it. It knows what each step
// may do, and nothing of how plans are made.
#pragma once

#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// One sentence per fault, at most `most`; empty for a plan that is right. Checked are: that each
// device's box after a step comes from boxes that its group held before it, that every step does what
// its kind allows, that the plan ends in its target, and that its cost, memory and floor are true.
// A peak above the bound is no fault: a plan may be made without regard to it, and says so.
std::vector<std::string> find_faults(const Plan& plan, std::size_t most = 10);

// Of steps alone: what they do, not what they cost.
std::vector<std::string> find_faults(const Movement& movement, std::size_t most = 10);

}  // namespace retile
