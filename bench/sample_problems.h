// Random problems, the same ones on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "retile/planner/problem.h"

namespace retile::bench {

struct ProblemFamily {
  std::string name;
  std::vector<std::int64_t> axes;  // sizes of the mesh's axes: a, b, c, …
  Shape shape;                     // of the array
  std::size_t count = 100;
  std::uint64_t seed = 1;
};

// As in section 8 of the paper: in source and target, each axis is replicated or on a random dimension, in
// random order. Layouts that do not divide the shape evenly are drawn again.
std::vector<Problem> sample_problems(const ProblemFamily& family);

}  // namespace retile::bench
