#include "tools/retile/job.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "retile/base/error.h"
#ifdef RETILE_HAS_MPI
#include "retile/engines/mpi/session.h"
#endif

namespace retile::command {

bool is_in_job() {
  // Set by Open MPI, and by MPICH and its relatives.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const char* size = std::getenv(name);
    if (size != nullptr && std::atoi(size) > 1) return true;
  }
  return false;
}

#ifdef RETILE_HAS_MPI

namespace {

// MPI can be started once in a process's life.
std::unique_ptr<mpi::Session>& session() {
  static std::unique_ptr<mpi::Session> session;
  return session;
}

void write(const std::string& message) { std::fputs(message.c_str(), stderr); }

}  // namespace

Job::Job() {
  if (!is_in_job()) return;
  session() = std::make_unique<mpi::Session>();
  if (session()->rank() != 0 && std::freopen("/dev/null", "w", stdout) == nullptr) {
    throw RuntimeError("cannot open /dev/null");
  }
}

Job::~Job() { session().reset(); }

std::unique_ptr<Engine> make_job_engine(const mpi::MpiOptions& options) {
  if (session() == nullptr) session() = std::make_unique<mpi::Session>();
  return session()->make_engine(options);
}

std::string read_in_job(const std::function<std::string()>& read) {
  if (session() == nullptr) return read();
  return session()->share(session()->rank() == 0 ? read() : std::string());
}

void report_failure(int status, const std::string& message) {
  if (session() == nullptr || session()->size() == 1) return write(message);
  const bool is_common = session()->have_all_failed();
  if (!is_common || session()->rank() == 0) write(message);
  if (!is_common) session()->abort(status);
}

#else

Job::Job() = default;
Job::~Job() = default;

std::unique_ptr<Engine> make_job_engine(const mpi::MpiOptions&) {
  throw RuntimeError("this retile was built without MPI; with MPI installed, build it anew");
}

std::string read_in_job(const std::function<std::string()>& read) { return read(); }

void report_failure(int, const std::string& message) { std::fputs(message.c_str(), stderr); }

#endif

}  // namespace retile::command
