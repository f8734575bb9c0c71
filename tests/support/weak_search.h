// A plain Dijkstra over weak types with multi-axis collectives (sec:shortest-paths): what no sequence of the paper's
// collectives can cost less than.
#pragma once

#include <cstdint>
#include <map>

#include "tests/support/weak.h"

namespace retile::test {

class WeakSearch {
 public:
  // Searches from the source to every weak type that the mesh supplies, whatever its local size.
  WeakSearch(const Mesh& mesh, const WeakType& source);

  std::int64_t cheapest(const Shape& local) const { return costs_.at({local, false}); }
  // With one permutation, at the local size where it is taken.
  std::int64_t cheapest_permuted(const Shape& local) const { return costs_.at({local, true}); }

 private:
  std::map<std::pair<Shape, bool>, std::int64_t> costs_;  // by local shape, and whether the permutation was taken
};

}  // namespace retile::test
