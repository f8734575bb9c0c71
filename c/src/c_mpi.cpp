#include "retile/c_mpi.h"

#include "c/src/handles.h"
#include "retile/engines/mpi/mpi_engine.h"

retile_status retile_engine_mpi(MPI_Comm comm, retile_engine** engine) {
  return retile::c::create(engine, [&] { return retile::mpi::make_mpi_engine(comm); });
}

retile_status retile_engine_mpi_fortran(MPI_Fint comm, retile_engine** engine) {
  return retile_engine_mpi(MPI_Comm_f2c(comm), engine);
}
