// Transfer plans for people and for programs.
#pragma once

#include <string>

#include "retile/transfer/plan.h"

namespace retile::transfer {

// Several lines.
std::string to_string(const TransferPlan& plan);

// One line, without its end.
std::string to_json(const TransferPlan& plan);

}  // namespace retile::transfer
