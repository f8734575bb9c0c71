// The job that the tests run in.
#pragma once

#include <mpi.h>

#include <string>

#include "retile/base/error.h"

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

// What the action's RuntimeError says; "" where it throws none.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "";
}

}  // namespace retile::mpi
