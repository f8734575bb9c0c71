// Senders: which holder of each box sends it, chosen over all boxes and arrays together.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/mesh.h"

namespace retile {

// Elements, or bytes, that any of these devices can send, and may share.
struct SenderDemand {
  std::vector<Device> holders;  // none twice, at least one
  std::int64_t amount = 0;
};

struct SenderShares {
  // The least that the busiest device can send: over all sets of devices, what only they hold, shared evenly.
  std::int64_t bound = 0;
  // By demand and holder: the demand's amount in all. No device sends more than the bound.
  std::vector<std::vector<std::int64_t>> shares;
};

// The amounts of all demands together fit in 63 bits. Where holders are alike they share evenly.
SenderShares share_sending(const std::vector<SenderDemand>& demands, std::int64_t device_count);

}  // namespace retile
