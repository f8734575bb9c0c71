// Relabelling: which device gets which tile of the target, where that is free.
#pragma once

#include <cstdint>
#include <string>

#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

struct Relabelling {
  Problem problem;               // with the target's tiles on the target's devices, in the order that was found
  std::int64_t kept = 0;         // elements of all target tiles that their devices hold beforehand
  std::int64_t kept_before = 0;  // the same in the order that the problem was given in
  std::int64_t wanted = 0;       // elements of all target tiles
};

// The order of the target's devices in which they keep the most elements, over all orders; the given one where it is as
// good. An order whose plan under these options costs more than that of the given one is not taken. Throws InputError
// for sums, and for more than `most_relabelled` devices.
Relabelling relabel(const Problem& problem, const PlanOptions& options = {});

constexpr std::int64_t most_relabelled = 4096;

// "relabelled to [4{y}8] on [0, 2, 1, 3]: 16 of 16 elements stay on their devices, 8 in the order that was given".
std::string to_string(const Relabelling& relabelling);

}  // namespace retile
