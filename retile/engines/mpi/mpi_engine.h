// The MPI engine: devices are ranks of an MPI job, or equally many to a rank.
//
// Making it and preparing runs is collective; runs are not (PreparedRun). What one rank is refused when a run is
// prepared, all are. What fails on one rank in a run throws RuntimeError there, with the rank, the step and the cause,
// and the same on every rank that waits for it; ranks that do not wait for it hear of it with the next run or
// preparation. Nothing can be run with the engine after that, so a program ends with MPI_Abort, or goes on with another
// communicator.
#pragma once

#include <mpi.h>

#include <functional>
#include <memory>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"

namespace retile::mpi {

// Collective. Works on a duplicate of the communicator; neither starts nor ends MPI, and must go before MPI_Finalize.
// Throws RuntimeError on all ranks where they were given different options.
std::unique_ptr<Engine> make_mpi_engine(MPI_Comm comm, const MpiOptions& options = {});

// The engine that the communicator keeps for such options: made by the first call, freed with the communicator, or by
// MPI_Finalize. Collective.
std::shared_ptr<Engine> engine_of(MPI_Comm comm, const MpiOptions& options = {});

// Processes::do_together() for the ranks of a communicator, which need no engine for it: options of engines, too, may
// be wrong on one rank alone. Collective.
void do_together(MPI_Comm comm, const std::function<void()>& action);

}  // namespace retile::mpi
