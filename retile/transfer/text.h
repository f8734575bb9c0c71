// Transfer plans for people and for programs.
#pragma once

#include <cstdint>
#include <string>

#include "retile/schedule/stream_plan.h"
#include "retile/transfer/in_place.h"
#include "retile/transfer/seconds.h"

namespace retile::transfer {

// Several lines; of what is run in place where there are such figures.
std::string to_string(const StreamPlan& plan, const InPlaceFigures* in_place = nullptr);

// One line, without its end; with a predicted time where there is one.
std::string to_json(const StreamPlan& plan, const InPlaceFigures* in_place = nullptr,
                    const TransferTime* time = nullptr);

}  // namespace retile::transfer
