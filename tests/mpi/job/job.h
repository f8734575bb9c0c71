// The job that the tests run in.
#pragma once

#include <mpi.h>

#include <string>

#include "retile/engines/mpi_options.h"

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

// Whether this is the one rank that is given something else than the others. A single rank is never refused for it.
inline bool differs() { return job_rank() == job_size() - 1; }

// Options that a test is run with, and how failures name them.
struct Setting {
  std::string name;
  MpiOptions options;
};

}  // namespace retile::mpi
