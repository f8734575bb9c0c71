// Machines made up for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "retile/machine/machine.h"

namespace retile::test {

// Machines of all kinds: hosts of one size, devices in turn or not, rates and latencies of many magnitudes.
class RandomMachines {
 public:
  Machine next(std::int64_t devices) {
    std::vector<Device> order(static_cast<std::size_t>(devices));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Device>(i);
    if (random_() % 3 == 0) std::shuffle(order.begin(), order.end(), random_);
    const std::size_t size = 1 + random_() % order.size();
    Machine machine;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i % size == 0) machine.hosts.emplace_back();
      machine.hosts.back().push_back(order[i]);
    }
    for (std::size_t i = 0; i < machine.hosts.size(); ++i) machine.links.push_back({any(1e6, 1e10), any(1e6, 1e10)});
    machine.link_latency = random_() % 2 == 0 ? 0 : any(1e-6, 1e-3);
    machine.inside_rate = any(1e8, 1e11);
    machine.inside_latency = random_() % 2 == 0 ? 0 : any(1e-7, 1e-4);
    machine.step = random_() % 2 == 0 ? 0 : any(1e-6, 1e-3);
    if (random_() % 2 == 0) machine.copy = {{16, any(1e7, 1e10)}, {4096, any(1e8, 1e11)}};
    if (!machine.copy.empty() && random_() % 2 == 0) machine.spread = {{16, any(1e7, 1e10)}};
    if (random_() % 2 == 0) machine.alone = any(1, 8);
    return machine;
  }

 private:
  double any(double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(random_));
  }

  std::mt19937 random_{11};
};

}  // namespace retile::test
