/* The MPI engine for C: retile/c.h with the ranks of a communicator as devices, or equally many devices to a rank. */
#ifndef RETILE_C_MPI_H
#define RETILE_C_MPI_H

#include <mpi.h>

#include "retile/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Collective. The communicator keeps one engine for each set of options, which works on a duplicate and ends with it:
 * ask for an engine as often as you like. MPI is neither started nor ended; the engine must be freed before
 * MPI_Finalize, and so must its runs. */
retile_status retile_engine_mpi(MPI_Comm comm, retile_engine** engine);

/* Zero is a good value of every field. All ranks give the same. */
typedef struct retile_mpi_options {
  const char* transport;     /* "auto" (NULL), "collectives", "messages" */
  int64_t staging_bytes;     /* the most bytes that a rank has besides tiles; 0: 8 MiB */
  const int64_t* device_map; /* devices rank by rank; NULL: the first ones on rank 0 and so on */
  int64_t device_map_size;   /* devices that device_map lists */
} retile_mpi_options;
/* The same with options, which may be NULL. */
retile_status retile_engine_mpi_with(MPI_Comm comm, const retile_mpi_options* options, retile_engine** engine);
/* The communicator as Fortran has it. */
retile_status retile_engine_mpi_fortran(MPI_Fint comm, retile_engine** engine);

#ifdef __cplusplus
}
#endif

#endif
