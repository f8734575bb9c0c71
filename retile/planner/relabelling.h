// Relabelling: which device gets which tile of the target, where that is free.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

// What plans take on a machine, in picoseconds.
struct OrderTime {
  std::int64_t total = 0;   // in the order that was found
  std::int64_t before = 0;  // in the order that the problem was given in
  std::int64_t least = 0;   // no plan of any order takes less
};

struct Relabelling {
  Problem problem;                // with the target's tiles on the target's devices, in the order that was found
  bool is_found = false;          // otherwise that order is the given one
  std::int64_t kept = 0;          // elements of all target tiles that their devices hold beforehand
  std::int64_t kept_before = 0;   // the same in the order that the problem was given in
  std::int64_t wanted = 0;        // elements of all target tiles
  std::optional<OrderTime> time;  // where costs are times on a machine, and the given order has a plan
};

// The order of the target's devices in which they keep the most elements, over all orders; the given one where it is as
// good. Where costs are times on a machine with hosts, another order is made by gains in seconds: the one in which
// links are busy for the least time, all of them together. The order is taken whose plan under these options costs the
// least: never one that costs more than the given one. Throws InputError for sums, for more than `most_relabelled`
// devices, and where the machine has another number of devices.
Relabelling relabel(const Problem& problem, const PlanOptions& options = {});

constexpr std::int64_t most_relabelled = 4096;

// "relabelled to [4{y}8] on [0, 2, 1, 3]: 16 of 16 elements stay on their devices, 8 in the order that was given"; on a
// machine "relabelled to …: takes 2.1 ms, 6.7 ms in the order that was given; no order takes less than 2 ms".
std::string to_string(const Relabelling& relabelling);

}  // namespace retile
