// Loaded before MPI (LD_PRELOAD): makes one rank's MPI_Isend fail, or kills the rank in it.
//
//   RETILE_FAULT_RANK=2 RETILE_FAULT_CALL=3 RETILE_FAULT=error|kill
#include <mpi.h>

#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

int number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

int calls = 0;

}  // namespace

extern "C" int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* fault = std::getenv("RETILE_FAULT");
  if (fault != nullptr && rank == number_of("RETILE_FAULT_RANK") && ++calls == number_of("RETILE_FAULT_CALL")) {
    if (std::strcmp(fault, "kill") == 0) std::raise(SIGKILL);
    return MPI_ERR_OTHER;
  }
  return PMPI_Isend(buffer, count, type, target, tag, comm, request);
}
