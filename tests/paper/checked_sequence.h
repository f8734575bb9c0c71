// A sequence that the verifier of plans has accepted.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/plan/verify.h"
#include "tests/support/collectives.h"
#include "tests/support/plans.h"
#include "tests/support/typed_steps.h"

namespace retile::test {

inline Sequence checked_sequence(const char* text) {
  Sequence sequence = sequence_of(text);
  const Plan plan = finish_plan(sequence.source(), sequence.target(), typed_steps(sequence));
  EXPECT_EQ(find_faults(plan), std::vector<std::string>());
  return sequence;
}

}  // namespace retile::test
