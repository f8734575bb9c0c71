// Random redistribution problems as in section 8 of the paper, the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/planner/problem.h"

namespace retile::evaluation {

struct SampleOptions {
  std::vector<std::int64_t> axes{2, 2, 2};  // sizes of the mesh's axes, which are named a, b, c, …
  int least_rank = 1;
  int most_rank = 6;
  std::int64_t least_bytes = 64'000'000;  // of the global array
  std::int64_t most_bytes = 800'000'000;
  ElementType element_type = ElementType::f32;
  std::uint64_t seed = 0;
};

// The problem with this number, "sample-0007". The rank is uniform; the size is uniform on a logarithmic scale and
// split at random between the dimensions; in source and target, each axis is replicated or on a random dimension, in
// random order. Depends only on the options and the number. Throws InputError where the options allow no problem.
Problem sample_problem(const SampleOptions& options, std::int64_t number);

// The problem with an array of at most `factor` times the size. Dimensions are halved one
// by one, each time the one that is farthest above the smallest size that both ends can be cut from, until that is
// reached or none can shrink.
Problem scale_problem(const Problem& problem, double factor);

// The problems P1 to P4, on which the paper was slowest against XLA (tbl:adversarial).
std::vector<Problem> adversarial_problems();

}  // namespace retile::evaluation
