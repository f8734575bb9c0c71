// The C interfaces of BLACS and of ScaLAPACK's redistribution routines, which come without a header.
#pragma once

#include <mpi.h>

// NOLINTBEGIN(readability-identifier-naming): their names
extern "C" {
int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridmap(int* context, int* ranks, int leading, int rows, int columns);
void Cblacs_gridinfo(int context, int* rows, int* columns, int* row, int* column);
void Cblacs_gridexit(int context);
int numroc_(const int* size, const int* block, const int* process, const int* first, const int* processes);
void Cpsgemr2d(int rows, int columns, float* a, int ia, int ja, int* a_descriptor, float* b, int ib, int jb,
               int* b_descriptor, int context);
void Cpdgemr2d(int rows, int columns, double* a, int ia, int ja, int* a_descriptor, double* b, int ib, int jb,
               int* b_descriptor, int context);
}
// NOLINTEND(readability-identifier-naming)
