// The MPI engine: devices are ranks of an MPI job, or equally many to a rank.
//
// A program that has called MPI_Init hands over its communicator and its own buffers:
//
//   retile::mpi::execute(plan, MPI_COMM_WORLD, sizeof(float), source, target);
//
// or, for many runs, prepares once:
//
//   const auto engine = retile::mpi::make_mpi_engine(MPI_COMM_WORLD);
//   const auto run = engine->prepare(movement_of(plan), sizeof(float));
//   run->execute(sources, targets);
//
// All calls are collective. What fails on one rank throws RuntimeError there, with the rank, the step and the cause;
// the others may then wait for it forever, so a program that does not catch it and go on must end with MPI_Abort.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"

namespace retile::mpi {

// Collective. Works on a duplicate of the communicator; neither starts nor ends MPI, and must go before MPI_Finalize.
std::unique_ptr<Engine> make_mpi_engine(MPI_Comm comm, const MpiOptions& options = {});

// One run with one device on each rank: reads this rank's tile of the plan's source and writes that of its target,
// which do not overlap.
EngineStatistics execute(const Plan& plan, MPI_Comm comm, std::int64_t element_size, const std::byte* source,
                         std::byte* target, const MpiOptions& options = {});

}  // namespace retile::mpi
