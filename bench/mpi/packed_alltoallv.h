// The contender: packing by hand, MPI_Alltoallv among the ranks that have something for each other, unpacking.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/engines/mpi/communicator.h"
#include "retile/planner/problem.h"
#include "retile/types/box.h"

namespace retile::bench {

// One rank per device; arrays of three dimensions, row-major tiles without replicas whose last dimension both ends cut
// alike, as pencils have it.
class PackedAlltoallv {
 public:
  PackedAlltoallv(const Problem& problem, const mpi::Communicator& world);

  void run(const std::byte* source, std::byte* target);

 private:
  // What goes to each member, or comes from it, one after the other in a buffer.
  struct Side {
    Box tile;
    std::vector<Box> boxes;   // by member
    std::vector<int> counts;  // bytes
    std::vector<int> displacements;
    std::vector<std::byte> buffer;
  };
  Side make_side(Box tile, std::vector<Box> boxes) const;

  std::int64_t element_size_;
  mpi::Communicator members_;
  Side sent_;
  Side received_;
};

}  // namespace retile::bench
