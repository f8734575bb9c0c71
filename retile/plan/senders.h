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

struct SenderShares {
  // The least that the busiest device can send: the maximum, over all sets of devices, of what only they hold divided
  // evenly among them.
  std::int64_t bound = 0;
  // By demand and holder. A demand's shares add up to its amount. No device sends more than the bound.
  std::vector<std::vector<std::int64_t>> shares;
};

// Shares the sending. The amounts of all demands together must fit in 63 bits. Interchangeable holders share evenly.
SenderShares share_sending(const std::vector<SenderDemand>& demands, std::int64_t device_count);

}  // namespace retile
