// redistribute() for MPI programs: the ranks of a communicator are the devices, or have equally many of them.
//
//   retile::mpi::redistribute<float>(problem, MPI_COMM_WORLD, source, target);   // this rank's tiles
//
// or, for many runs, prepared once:
//
//   auto redistribution = retile::mpi::prepare<float>(problem, MPI_COMM_WORLD);
//   redistribution.run(sources, targets);
//
// Runs make no collective call; redistribute(), prepare() and together() are collective: what they throw on one rank,
// they throw on all. MPI is neither started nor ended. The communicator keeps an engine, which works on a duplicate and
// is destroyed with it: prepare as many runs as you like. What is prepared ends before MPI_Finalize. A failure in a run
// throws RuntimeError on the rank that fails and on those that wait for it, with the rank, the step and the cause;
// nothing else can then be run with the communicator, so a program ends with MPI_Abort.
#pragma once

#include <mpi.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "retile/engines/mpi/mpi_engine.h"
#include "retile/engines/mpi_options.h"
#include "retile/redistribute.h"

namespace retile::mpi {

// Calls make() and returns its result. What it throws on one rank is thrown on all: for parsing problems, or anything
// else that may fail on one rank alone before a run is prepared. Needs no engine.
template <typename Make>
auto together(MPI_Comm comm, Make make) {
  std::optional<decltype(make())> made;
  do_together(comm, [&] { made.emplace(make()); });
  return *std::move(made);
}

// Prepares a problem or a plan, on the engine of `options` or else on the communicator's.
template <typename T, typename ProblemOrPlan>
Redistribution<T> prepare(const ProblemOrPlan& problem_or_plan, MPI_Comm comm, RedistributeOptions options = {},
                          const MpiOptions& mpi_options = {}) {
  const std::shared_ptr<Engine> kept = options.engine == nullptr ? engine_of(comm, mpi_options) : nullptr;
  if (kept != nullptr) options.engine = kept.get();
  return Redistribution<T>(problem_or_plan, options);
}

// One run. A span for each of this rank's devices, in ascending order.
template <typename T, typename ProblemOrPlan>
RunStatistics redistribute(const ProblemOrPlan& problem_or_plan, MPI_Comm comm,
                           std::span<const std::span<const T>> sources, std::span<const std::span<T>> targets,
                           const RedistributeOptions& options = {}, const MpiOptions& mpi_options = {}) {
  Redistribution<T> redistribution = prepare<T>(problem_or_plan, comm, options, mpi_options);
  redistribution.check(sources, targets);
  redistribution.run(sources, targets);
  return redistribution.statistics();
}

// One run, where each rank has one device.
template <typename T, typename ProblemOrPlan>
RunStatistics redistribute(const ProblemOrPlan& problem_or_plan, MPI_Comm comm, std::span<const T> source,
                           std::span<T> target, const RedistributeOptions& options = {},
                           const MpiOptions& mpi_options = {}) {
  return redistribute<T>(problem_or_plan, comm, std::span<const std::span<const T>>(&source, 1),
                         std::span<const std::span<T>>(&target, 1), options, mpi_options);
}

}  // namespace retile::mpi
