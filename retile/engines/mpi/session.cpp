#include "retile/engines/mpi/session.h"

#include <mpi.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/mpi_engine.h"

namespace retile::mpi {
namespace {

constexpr std::chrono::seconds patience(1);

// Open MPI takes some 220 MiB to start, and 4 more for each rank of its host. With less it goes on without parts of
// itself, and then crashes, or waits forever for ranks that have these parts.
constexpr std::size_t least_address_space = std::size_t{512} << 20U;

void require_address_space() {
  void* room = mmap(nullptr, least_address_space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw RuntimeError("no memory: MPI needs 512 MiB of address space to start (ulimit -v)");
  munmap(room, least_address_space);
}

void start_mpi() {
  require_address_space();
  int level = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
}

}  // namespace

struct Session::State {
  Communicator world = Communicator::duplicate(MPI_COMM_WORLD);
  Communicator failures = Communicator::duplicate(MPI_COMM_WORLD);  // where nothing else is under way
};

Session::Session() {
  start_mpi();
  state_ = std::make_unique<State>();
}

Session::~Session() {
  state_.reset();
  MPI_Finalize();
}

const Processes& Session::processes() const { return state_->world; }

std::unique_ptr<Engine> Session::make_engine(const MpiOptions& options) const {
  return make_mpi_engine(state_->world.get(), options);
}

bool Session::have_all_failed() const {
  MPI_Request request = MPI_REQUEST_NULL;
  int is_done = 0;
  if (MPI_Ibarrier(state_->failures.get(), &request) != MPI_SUCCESS) return false;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (is_done == 0 && std::chrono::steady_clock::now() < end) {
    if (MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
    if (is_done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return is_done != 0;
}

void Session::abort(int status) const {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}

}  // namespace retile::mpi
