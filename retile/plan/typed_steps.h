// The steps of a plan for a sequence of typed collectives.
#pragma once

#include <vector>

#include "retile/collectives/sequence.h"
#include "retile/plan/plan.h"

namespace retile {

// One plan step per collective, lists absent.
std::vector<Step> typed_steps(const Sequence& sequence);

}  // namespace retile
