// What devices send each other in a run, without the data.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/machine/machine.h"
#include "retile/plan/plan.h"
#include "retile/schedule/stream_plan.h"

namespace retile::bench {

// All that one device sends another in a phase.
struct SentBytes {
  Device from = 0;
  Device to = 0;
  std::int64_t bytes = 0;
};

// Messages that are under way at once: the next phase begins when all of them have arrived.
struct Phase {
  std::vector<SentBytes> messages;  // by sender, then receiver
  bool begins_step = true;          // rather than going on with the step before
};

// Phases of a movement, as an engine runs it on the machine's hosts: where there are several, what crosses into a host
// crosses once and is passed on in a phase of its own.
std::vector<Phase> phases_of(const Movement& movement, std::int64_t element_size, const Machine& machine);

// Phases of a transfer: from sources, then what is passed on inside hosts.
std::vector<Phase> phases_of(const StreamPlan& plan);

}  // namespace retile::bench
