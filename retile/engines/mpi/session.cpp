#include "retile/engines/mpi/session.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/mpi_engine.h"

namespace retile::mpi {
namespace {

constexpr std::chrono::seconds patience(1);

void start_mpi() {
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

int Session::rank() const { return state_->world.rank(); }
int Session::size() const { return state_->world.size(); }

std::unique_ptr<Engine> Session::make_engine(const MpiOptions& options) const {
  return make_mpi_engine(state_->world.get(), options);
}

std::string Session::share(std::string text) const {
  constexpr std::size_t most_bytes = 1 << 30;
  std::uint64_t size = text.size();
  check(MPI_Bcast(&size, 1, MPI_UINT64_T, 0, state_->world.get()), "MPI_Bcast");
  text.resize(size);
  for (std::size_t done = 0; done < text.size(); done += most_bytes) {
    const auto count = static_cast<int>(std::min(most_bytes, text.size() - done));
    check(MPI_Bcast(text.data() + done, count, MPI_CHAR, 0, state_->world.get()), "MPI_Bcast");
  }
  return text;
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
