// redistribute() for MPI programs: the ranks of a communicator are the devices, or have equally many of them.
//
//   retile::mpi::redistribute<float>(problem, MPI_COMM_WORLD, source, target);   // this rank's tiles
//
// or, for many runs, prepared once:
//
//   auto redistribution = retile::mpi::prepare<float>(problem, MPI_COMM_WORLD);
//   redistribution.run(sources, targets);
//
// All calls are collective, and so is the end of what prepare() gives, which must come before MPI_Finalize. MPI is
// neither started nor ended; the communicator is duplicated. Memory that does not fit one rank's tiles throws
// RuntimeError on all ranks. What else fails on one rank throws RuntimeError there, with the rank, the step and the
// cause; the others may then wait for it forever, so a program that does not catch it and go on must end with
// MPI_Abort.
#pragma once

#include <mpi.h>

#include <memory>
#include <span>

#include "retile/engines/mpi/mpi_engine.h"
#include "retile/engines/mpi_options.h"
#include "retile/redistribute.h"

namespace retile::mpi {

// Of a problem or a plan. The engine of `options` is not used.
template <typename T, typename ProblemOrPlan>
Redistribution<T> prepare(const ProblemOrPlan& problem_or_plan, MPI_Comm comm, RedistributeOptions options = {},
                          const MpiOptions& mpi_options = {}) {
  const std::unique_ptr<Engine> engine = make_mpi_engine(comm, mpi_options);
  options.engine = engine.get();
  return Redistribution<T>(problem_or_plan, options);
}

// One run. A span for each of this rank's devices, in ascending order.
template <typename T, typename ProblemOrPlan>
RunStatistics redistribute(const ProblemOrPlan& problem_or_plan, MPI_Comm comm,
                           std::span<const std::span<const T>> sources, std::span<const std::span<T>> targets,
                           const RedistributeOptions& options = {}, const MpiOptions& mpi_options = {}) {
  return prepare<T>(problem_or_plan, comm, options, mpi_options).run(sources, targets);
}

// With one device on each rank.
template <typename T, typename ProblemOrPlan>
RunStatistics redistribute(const ProblemOrPlan& problem_or_plan, MPI_Comm comm, std::span<const T> source,
                           std::span<T> target, const RedistributeOptions& options = {},
                           const MpiOptions& mpi_options = {}) {
  return prepare<T>(problem_or_plan, comm, options, mpi_options).run({&source, 1}, {&target, 1});
}

}  // namespace retile::mpi
