// What programs that mpirun starts have in common besides.
#pragma once

#include <mpi.h>

#include "bench/program.h"

namespace retile::bench {

// Arguments and input are at fault on all ranks alike, and each ends by itself. What fails later may fail on one rank
// alone, for which the others would wait.
template <typename Arguments>
int run_mpi_program(const Program<Arguments>& program, int argument_count, char** given) {
  MPI_Init(&argument_count, &given);
  const int status = run_program(program, argument_count, given);
  if (status > 2) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}

}  // namespace retile::bench
