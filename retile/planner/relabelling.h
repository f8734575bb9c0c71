// Relabelling: which device gets which tile of the target, where that is free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

// The times that plans take on a machine, in picoseconds.
struct OrderTime {
  std::int64_t total = 0;   // of the plan in the order that was found
  std::int64_t before = 0;  // of the plan in the given order
  std::int64_t least = 0;   // a lower bound over all orders
};

struct Relabelling {
  Problem problem;                // its target's tiles are on the target's devices in the order that was found
  bool is_found = false;          // false: the order is the given one
  std::int64_t kept = 0;          // elements of all target tiles that their devices hold beforehand
  std::int64_t kept_before = 0;   // as `kept`, in the given order
  std::int64_t wanted = 0;        // elements of all target tiles
  std::optional<OrderTime> time;  // where costs are times on a machine, and the given order has a plan
};

// Finds the order of the target's devices in which they keep the most elements, over all orders; the given order where
// it is as good. Where costs are times on a machine with hosts, a second order is made from gains in seconds: the one
// in which all links together are busy for the least time. Takes the order whose plan under these options costs the
// least, never one that costs more than the given order. Throws InputError for sums, for more than
// `most_relabelled` devices, and where the machine has another number of devices.
Relabelling relabel(const Problem& problem, const PlanOptions& options = {});

constexpr std::int64_t most_relabelled = 4096;

// "relabelled to [4{y}8] on [0, 2, 1, 3]: 16 of 16 elements stay on their devices, 8 in the order that was given"; on a
// machine "relabelled to …: takes 2.1 ms, 6.7 ms in the order that was given; no order takes less than 2 ms".
std::string to_string(const Relabelling& relabelling);

}  // namespace retile
