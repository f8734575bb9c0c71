// A problem as the search sees it: how often each prime of the mesh cuts each dimension.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "retile/planner/problem.h"

namespace retile {

// Exponents of the primes in the number of tiles of each dimension: cuts[prime * rank + dimension].
using Cuts = std::vector<std::int8_t>;

struct CutProblem {
  int rank = 0;
  std::vector<std::int64_t> primes;  // of the mesh, distinct and ascending
  std::vector<int> supply;           // how many axes of each prime the mesh has
  std::vector<int> source_total;     // how many of the axes cut the source
  std::vector<int> target_total;
  Cuts source;
  Cuts target;
  Cuts capacity;  // how often the primes divide the global size of each dimension
  Shape global;
  std::int64_t source_size = 1;  // local sizes
  std::int64_t target_size = 1;
  std::int64_t device_count = 1;
  std::int64_t element_size = 1;  // bytes

  // The array's own shape, which the grid may exceed, and the most of its elements that a device may hold on the way.
  Shape array;
  std::int64_t most_held = std::numeric_limits<std::int64_t>::max();

  std::size_t at(std::size_t prime, int dimension) const {
    return prime * static_cast<std::size_t>(rank) + static_cast<std::size_t>(dimension);
  }
  // Number of tiles of a dimension.
  std::int64_t tiles(std::span<const std::int8_t> cuts, int dimension) const;
  // Number of tiles of each dimension.
  Shape grid(std::span<const std::int8_t> cuts) const;
  // The number of elements in the largest tile that lie in the array.
  std::int64_t held(std::span<const std::int8_t> cuts) const;
  // The most cuts by a prime for which the mesh has axes and the array has room.
  int deepest(std::size_t prime) const;
};

CutProblem cut_problem_of(const TypedProblem& problem);

}  // namespace retile
