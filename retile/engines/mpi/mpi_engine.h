// The MPI engine: devices are ranks of an MPI job, or equally many to a rank.
//
// All calls of it and of what it prepares are collective. What fails on one rank throws RuntimeError there, with the
// rank, the step and the cause; the others may then wait for it forever, so a program that does not catch it and go on
// must end with MPI_Abort.
#pragma once

#include <mpi.h>

#include <memory>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"

namespace retile::mpi {

// Collective. Works on a duplicate of the communicator; neither starts nor ends MPI, and must go before MPI_Finalize.
std::unique_ptr<Engine> make_mpi_engine(MPI_Comm comm, const MpiOptions& options = {});

}  // namespace retile::mpi
