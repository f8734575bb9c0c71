// The job that the tests run in.
#pragma once

#include <mpi.h>

namespace retile::mpi {

inline int job_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

inline int job_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

}  // namespace retile::mpi
