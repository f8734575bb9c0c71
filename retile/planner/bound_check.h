// Checks of a plan's claims about its cost that its steps do not show: a lower bound, and whether it is optimal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

enum class BoundVerdict {
  confirmed,    // no plan of the planner's steps costs less
  refuted,      // some such plan does, the plan costs less than is proved possible, or the planner does not prove it
  not_checked,  // neither was shown
};

// "confirmed", "refuted", "not checked".
const char* name_of(BoundVerdict verdict);

struct BoundCheck {
  BoundVerdict verdict = BoundVerdict::not_checked;
  std::string reason;
};

// Judges the lower bound of a plan without faults (plan/verify.h), and with it `optimal`, by planning the problem anew
// with the planner and cost model that the plan names, at the default effort. The bound of a wide plan without
// exchanges may be over all wide plans or over those without exchanges. A bound between what is proved here and what is
// found here is not checked if the planner searches, since more effort may prove more; otherwise it is refuted. One of
// an unknown planner is confirmed only if it holds for every plan.
BoundCheck check_bound(const Plan& plan);

// The verification as a line of JSON without its end (docs/formats.md, Verification): what is wrong with the plan that
// begins on this line.
std::string verification_json(const std::string& id, int line, const std::vector<std::string>& faults,
                              const std::optional<BoundCheck>& bound);

}  // namespace retile
