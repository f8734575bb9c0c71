// MPI's collective calls as the library finds them: counted, then passed on. They are all that the library has.
#include "tests/mpi/c_job/collective_calls.h"

#include <mpi.h>

namespace {

int calls = 0;
int communicators = 0;

}  // namespace

int retile::c::test::collective_calls() { return calls; }
int retile::c::test::new_communicators() { return communicators; }

extern "C" {

int MPI_Allgather(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                  MPI_Comm comm) {
  ++calls;
  return PMPI_Allgather(from, count, type, to, to_count, to_type, comm);
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
  ++calls;
  return PMPI_Allreduce(from, to, count, type, operation, comm);
}

int MPI_Alltoallv(const void* from, const int* counts, const int* places, MPI_Datatype type, void* to,
                  const int* to_counts, const int* to_places, MPI_Datatype to_type, MPI_Comm comm) {
  ++calls;
  return PMPI_Alltoallv(from, counts, places, type, to, to_counts, to_places, to_type, comm);
}

int MPI_Iallgather(const void* from, int count, MPI_Datatype type, void* to, int to_count, MPI_Datatype to_type,
                   MPI_Comm comm, MPI_Request* request) {
  ++calls;
  return PMPI_Iallgather(from, count, type, to, to_count, to_type, comm, request);
}

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm,
                   MPI_Request* request) {
  ++calls;
  return PMPI_Iallreduce(from, to, count, type, operation, comm, request);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  ++calls;
  return PMPI_Ibarrier(comm, request);
}

int MPI_Ibcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request* request) {
  ++calls;
  return PMPI_Ibcast(buffer, count, type, root, comm, request);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  ++calls;
  ++communicators;
  return PMPI_Comm_dup(comm, made);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  ++calls;
  ++communicators;
  return PMPI_Comm_split(comm, color, key, made);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  ++calls;
  ++communicators;
  return PMPI_Comm_split_type(comm, type, key, info, made);
}

}  // extern "C"
