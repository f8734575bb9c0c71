// What a plan says of its cost beyond what its steps show: a lower bound, and whether it is optimal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

enum class BoundVerdict {
  confirmed,    // no plan of the planner's steps costs less
  refuted,      // some plan of them does, the plan itself costs less than all of them, or the planner does not prove it
  not_checked,  // neither was shown
};

// "confirmed", "refuted", "not checked".
const char* name_of(BoundVerdict verdict);

struct BoundCheck {
  BoundVerdict verdict = BoundVerdict::not_checked;
  std::string reason;
};

// Judges the lower bound of a plan without faults (plan/verify.h), and with it `optimal`, by planning its problem anew
// with the planner and the cost model that it names, at the default effort. A wide plan without exchanges may mean
// either all wide plans or those without exchanges. Bounds above what is proved here and below what is found may have
// taken more effort; a planner that is not known may have proved anything above what every plan must cost.
BoundCheck check_bound(const Plan& plan);

// A line without its end (docs/formats.md, Verification): what is wrong with the plan that begins on that line.
std::string verification_json(const std::string& id, int line, const std::vector<std::string>& faults,
                              const std::optional<BoundCheck>& bound);

}  // namespace retile
