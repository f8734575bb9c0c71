// Who sends what: of all holders of a box, over all arrays together.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/types/mesh.h"

namespace retile {

// Bytes that any of these devices can send, and may share.
struct SenderDemand {
  std::vector<Device> holders;  // none twice, at least one
  std::int64_t bytes = 0;
};

struct SenderShares {
  // The least that the busiest device can send: over all sets of devices, what only they hold, shared evenly.
  std::int64_t bound = 0;
  // By demand and holder: bytes, the demand's in all. No device sends more than the bound.
  std::vector<std::vector<std::int64_t>> shares;
};

// Bytes of all demands fit in 63 bits. Where holders are alike they share evenly.
SenderShares share_sending(const std::vector<SenderDemand>& demands, std::int64_t device_count);

}  // namespace retile
