// A machine as a platform of SimGrid, and how long phases take on it.
#pragma once

#include <memory>
#include <vector>

#include "bench/simgrid/phases.h"
#include "retile/machine/machine.h"

namespace retile::bench {

// SimGrid's links share their rates among messages (max-min fairness). A message inside a host goes by links of its two
// devices, one between hosts by those of the hosts. A device prepares its messages one after the other, each for the
// latency of a message; their bytes flow meanwhile. Copies are not simulated. There is one platform in a program, and
// it is run once.
class Platform {
 public:
  explicit Platform(const Machine& machine);
  Platform(const Platform&) = delete;
  Platform& operator=(const Platform&) = delete;
  ~Platform();

  // Seconds of each run, which is phases one after the other.
  std::vector<double> simulate(const std::vector<std::vector<Phase>>& runs);

 private:
  struct Simulation;
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace retile::bench
