// The contender: one MPI_Alltoallw with subarray types, written as well as can be.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/copies/copy.h"
#include "retile/planner/problem.h"
#include "retile/types/placement.h"

namespace retile::bench {

// What a rank keeps is copied, or sent to itself along with the rest.
enum class OwnPart { copied, sent };

// One rank per device. Each element is sent once, by a holder of it that has no more to send than others. Boxes that
// are contiguous in a tile are so for MPI too; several boxes for a rank are one type. Types are made once.
class Alltoallw {
 public:
  Alltoallw(const Problem& problem, MPI_Comm comm, OwnPart own_part);
  Alltoallw(const Alltoallw&) = delete;
  Alltoallw& operator=(const Alltoallw&) = delete;
  ~Alltoallw();

  void run(const std::byte* source, std::byte* target) const;

 private:
  // For each rank: so many of a type, from so many bytes on.
  struct Side {
    std::vector<int> counts;
    std::vector<int> displacements;
    std::vector<MPI_Datatype> types;
  };

  // The boxes that go to a rank or come from it, in the order in which they are sent.
  void add(Side& side, int peer, const Placement& tiles, const std::vector<Box>& boxes);

  MPI_Comm comm_;
  int rank_ = 0;
  std::int64_t element_size_;
  MPI_Datatype element_;
  Side sent_;
  Side received_;
  std::vector<BoxCopy> own_;
};

}  // namespace retile::bench
