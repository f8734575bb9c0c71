// Seconds: how long a transfer takes on a machine.
#pragma once

#include <string>

#include "retile/costs/seconds.h"
#include "retile/schedule/stream_plan.h"

namespace retile::transfer {

struct TransferTime {
  StepTime predicted;
  StepTime lower_bound;  // no transfer of these arrays takes less
};

// The form with messages so long that the machine moves bytes while it prepares the next message. They are never
// shorter than the form's.
MessageForm message_form(const Machine& machine, MessageForm form = {});

// A plan on the hosts of the machine. Rows are taken to be long: what is copied goes at the rate of the longest.
TransferTime predict_time(const StreamPlan& plan, const SecondsModel& model);

// "time      1.25 ms, 1 ms of it host 2's link out; no transfer takes less than 1 ms", below the lines of a plan.
std::string time_line(const TransferTime& time);

}  // namespace retile::transfer
