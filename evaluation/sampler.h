// Random redistribution problems as in section 8 of the paper, the same ones on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/planner/problem.h"

namespace retile::evaluation {

struct SampleOptions {
  std::vector<std::int64_t> axes{2, 2, 2};  // sizes of the mesh's axes, which are called a, b, c, …
  int least_rank = 1;
  int most_rank = 6;
  std::int64_t least_bytes = 64'000'000;  // of the global array
  std::int64_t most_bytes = 800'000'000;
  ElementType element_type = ElementType::f32;
  std::uint64_t seed = 0;
};

// The problem with this number, "sample-0007": rank uniform, size uniform on a logarithmic scale and split at random
// between the dimensions, and in source and target each axis replicated or on a random dimension, in random order. It
// depends on the options and the number alone. Throws InputError where the options leave no problem to draw.
Problem sample_problem(const SampleOptions& options, std::int64_t number);

// The problem with an array of at most `factor` times the size: the dimension with the most tiles' worth of
// elements is halved, time after time, until that is reached or no dimension can shrink.
Problem scale_problem(const Problem& problem, double factor);

// P1 to P4: the problems on which the paper was slowest against XLA (tbl:adversarial).
std::vector<Problem> adversarial_problems();

}  // namespace retile::evaluation
