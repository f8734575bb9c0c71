// Loaded before MPI (LD_PRELOAD): from some MPI_Isend of one rank on, something is wrong.
//
//   RETILE_FAULT_RANK=2 RETILE_FAULT_CALL=3 RETILE_FAULT=error|kill|memory
//
// error: the call fails; kill: the rank dies in it; memory: there is no memory left. MPI_Abort leaves by exit(), as MPI
// may; a rank that still ends MPI then says so, since it could wait there forever.
#include <mpi.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

int number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

int calls = 0;
bool is_memory_gone = false;
bool is_aborted = false;

}  // namespace

extern "C" int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* fault = std::getenv("RETILE_FAULT");
  if (fault != nullptr && rank == number_of("RETILE_FAULT_RANK") && ++calls == number_of("RETILE_FAULT_CALL")) {
    if (std::strcmp(fault, "memory") == 0) {
      is_memory_gone = true;
      throw std::bad_alloc();
    }
    if (std::strcmp(fault, "kill") == 0) std::raise(SIGKILL);
    return MPI_ERR_OTHER;
  }
  return PMPI_Isend(buffer, count, type, target, tag, comm, request);
}

extern "C" int MPI_Abort(MPI_Comm, int status) {
  is_aborted = true;
  std::exit(status);
}

extern "C" int MPI_Finalize() {
  if (is_aborted) std::fputs("MPI is ended after the job was aborted\n", stderr);
  return PMPI_Finalize();
}

void* operator new(std::size_t size) {
  void* memory = is_memory_gone ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// What the libraries ask for without an exception comes from the same place.
void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return is_memory_gone ? nullptr : std::malloc(size);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
