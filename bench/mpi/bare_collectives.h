// The contender of portable plans: the same collectives, bare, on contiguous buffers that need no packing.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/memory/buffer.h"
#include "retile/plan/plan.h"

namespace retile::bench {

// One rank per device. Moves as many bytes between the same ranks as the plan's steps, to no particular place.
class BareCollectives {
 public:
  BareCollectives(const Plan& plan, MPI_Comm comm, std::int64_t element_size);
  BareCollectives(const BareCollectives&) = delete;
  BareCollectives& operator=(const BareCollectives&) = delete;
  ~BareCollectives();

  void run();

 private:
  struct Collective {
    StepOp op;
    MPI_Comm group;  // null for allpermute
    int count;       // bytes to each member
    int to;          // ranks, of an allpermute
    int from;
  };

  void add(const StepOperation& operation, std::int64_t bytes);  // of a tile before it

  MPI_Comm comm_;
  std::vector<Collective> collectives_;
  Buffer sent_;
  Buffer received_;
};

}  // namespace retile::bench
