// Gather everything, then slice (eq:naive-redistribution). The contender that every plan must beat:
// it holds the whole array on every device on the way.
#pragma once

#include "retile/collectives/sequence.h"
#include "retile/planner/problem.h"

namespace retile {

// No steps at all where source and target place the same boxes.
Sequence gather_and_slice(const Problem& problem);

}  // namespace retile
