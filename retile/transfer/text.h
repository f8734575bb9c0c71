// Transfer plans for people and for programs.
#pragma once

#include <cstdint>
#include <string>

#include "retile/transfer/in_place.h"
#include "retile/transfer/plan.h"

namespace retile::transfer {

// Several lines; of what is run in place where there are such figures.
std::string to_string(const TransferPlan& plan, const InPlaceFigures* in_place = nullptr);

// One line, without its end.
std::string to_json(const TransferPlan& plan, const InPlaceFigures* in_place = nullptr);

}  // namespace retile::transfer
