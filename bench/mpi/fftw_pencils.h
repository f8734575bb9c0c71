// The contender: FFTW's transpose over MPI, which the pencils of one row of processes are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "retile/engines/mpi/communicator.h"
#include "retile/planner/problem.h"

namespace retile::bench {

// Complex numbers of three dimensions: `[n, m{p}, k{q}]` to `[n{p}, m, k{q}]`, by ceilings. One rank per device.
class FftwPencils {
 public:
  FftwPencils(const Problem& problem, const mpi::Communicator& world);
  ~FftwPencils();
  FftwPencils(const FftwPencils&) = delete;
  FftwPencils& operator=(const FftwPencils&) = delete;

  void run(const std::byte* source, std::byte* target);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retile::bench
