// Whether a transfer does what it should. Shares no code with what plans it: it knows boxes, and who holds which.
#pragma once

#include <string>
#include <vector>

#include "retile/transfer/plan.h"

namespace retile::transfer {

// Faults of the pieces that a device receives or keeps: every element of its target tiles
// must come once, from a device that holds it, and from the device itself where it does.
std::vector<std::string> find_faults(const Manifest& manifest, Device to, const std::vector<StreamPlan::Piece>& pieces);

// Faults of all devices, and of what the plan counts that they send, receive and stage.
std::vector<std::string> find_faults(const TransferPlan& plan);

}  // namespace retile::transfer
