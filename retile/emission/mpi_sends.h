// What ranks send in emitted MPI code: by the plan, or by a rule that each rank computes for itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/schedule/stage.h"
#include "retile/types/held_runs.h"

namespace retile::emission {

// How much an exchange makes devices send. What they keep counts as received.
struct Sends {
  std::vector<std::int64_t> received;  // elements, by device
  std::vector<std::int64_t> sent;
  std::int64_t messages = 0;
};

Sends sends_of(const Stage& stage);

// What the emitted asked_in_turn() makes ranks send: those that lack an array ask its holders in turn. The arrays are
// those of all devices.
Sends sends_in_turn(const std::vector<LocalArray>& held, const std::vector<LocalArray>& after);

// Likewise of the emitted shared(): an array's holders send equal shares of what others lack of it.
Sends shared_sends(const std::vector<LocalArray>& held, const std::vector<LocalArray>& after);

// Whether every device receives as much, nobody sends much more than the most that a device sends in the plan, and
// there are no more messages. Then each element is received once, because a rule leaves out nothing that is wanted.
bool is_as_good(const Sends& sends, const Sends& planned);

// The most devices that hold the same.
std::size_t most_holders(const std::vector<LocalArray>& held);

}  // namespace retile::emission
