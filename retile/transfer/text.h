// Transfer plans for people and for programs.
#pragma once

#include <cstdint>
#include <string>

#include "retile/transfer/in_place.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// Several lines.
std::string to_string(const TransferPlan& plan);

// One line: what the transfer takes in place, and whether that is within the cap.
std::string to_string(const InPlaceFigures& figures, std::int64_t max_bytes);

// One line, without its end.
std::string to_json(const TransferPlan& plan, const InPlaceSchedule* in_place = nullptr);

}  // namespace retile::transfer
