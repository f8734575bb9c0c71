// Senders: which holder of each box sends it. Chosen over all boxes and arrays together.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/mesh.h"

namespace retile {

// An amount, in elements or bytes, that any of these devices can send, and that they may share.
struct SenderDemand {
  std::vector<Device> holders;  // distinct, at least one
  std::int64_t amount = 0;
};

// How much devices send in relation to each other, by device, each at least 1. Empty: equally much.
using SenderWeights = std::vector<std::int64_t>;

// Weights in proportion to these rates, by device. Empty where all rates are equal.
SenderWeights sender_weights(const std::vector<double>& rates);

struct SenderShares {
  // The least that the busiest device can send, divided by its weight: the maximum, over all sets of devices, of what
  // only they hold divided by their weights.
  std::int64_t bound = 0;
  // By demand and holder. A demand's shares add up to its amount. No device sends more than its weight times the bound.
  std::vector<std::vector<std::int64_t>> shares;
};

// Shares the sending. The amounts of all demands together must fit in 63 bits. Interchangeable holders share by their
// weights.
SenderShares share_sending(const std::vector<SenderDemand>& demands, std::int64_t device_count,
                           const SenderWeights& weights = {});

}  // namespace retile
