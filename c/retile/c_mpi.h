/* The MPI engine for C: retile/c.h with the ranks of a communicator as devices, or equally many devices to a rank. */
#ifndef RETILE_C_MPI_H
#define RETILE_C_MPI_H

#include <mpi.h>

#include "retile/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective. MPI is neither started nor ended; the engine must be freed before MPI_Finalize, and so must its runs. */
retile_status retile_engine_mpi(MPI_Comm comm, retile_engine** engine);
/* The communicator as Fortran has it. */
retile_status retile_engine_mpi_fortran(MPI_Fint comm, retile_engine** engine);

#ifdef __cplusplus
}
#endif

#endif
