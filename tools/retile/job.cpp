#include "tools/retile/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <thread>
#include <utility>

#include "retile/base/error.h"
#include "tools/retile/options.h"
#ifdef RETILE_HAS_MPI
#include "retile/engines/mpi/session.h"
#endif

namespace retile::command {

namespace {

// The number in the first of these variables of the environment that is set; else 0. One name is Open MPI's, the other
// that of MPICH and its relatives.
int environment_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* size = std::getenv(name)) return std::atoi(size);
  }
  return 0;
}

// How many processes mpirun started; 0 where it did not.
int launched_processes() { return environment_number({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}); }

}  // namespace

bool is_in_job() { return launched_processes() > 1; }
bool is_launched() { return launched_processes() > 0; }

int cores_of_rank() {
  const int ranks = std::max(1, environment_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

#ifdef RETILE_HAS_MPI

namespace {

// MPI can be started once in a process's life. Job alone ends it: a static's own destructor would do so where MPI_Abort
// leaves by exit(), and wait there for ranks that are gone.
std::unique_ptr<mpi::Session>& session() {
  static auto* const session = new std::unique_ptr<mpi::Session>;
  return *session;
}

const Processes& processes() { return session() == nullptr ? one_process() : session()->processes(); }

}  // namespace

Job::Job() {
  if (!is_in_job()) return;
  session() = std::make_unique<mpi::Session>();
  if (!processes().is_speaker() && std::freopen("/dev/null", "w", stdout) == nullptr) {
    throw RuntimeError("cannot open /dev/null");
  }
}

Job::~Job() { session().reset(); }

std::unique_ptr<Engine> make_job_engine(const mpi::MpiOptions& options) {
  if (session() == nullptr) session() = std::make_unique<mpi::Session>();
  return session()->make_engine(options);
}

void report_failure(int status, const char* message) {
  const bool is_common = processes().size() == 1 || session()->have_all_failed();
  if (!is_common || processes().is_speaker()) std::fputs(message, stderr);
  if (!is_common) session()->abort(status);
}

#else

namespace {

const Processes& processes() { return one_process(); }

}  // namespace

Job::Job() = default;
Job::~Job() = default;

std::unique_ptr<Engine> make_job_engine(const mpi::MpiOptions&) {
  throw RuntimeError(
      "this retile was built without MPI, as pip and make build do; docs/install.md says how to build it with MPI");
}

void report_failure(int, const char* message) { std::fputs(message, stderr); }

#endif

namespace {

// "'--json'", where lists hold each argument with a zero at its end.
std::string argument_at(const std::string& list, std::size_t begin) {
  return begin == list.size() ? "missing" : fmt::format("'{}'", list.c_str() + begin);
}

std::optional<std::string> find_difference(const std::string& first, const std::string& mine) {
  if (first == mine) return std::nullopt;
  const auto end = std::mismatch(first.begin(), first.end(), mine.begin(), mine.end()).first;
  const std::string same(first.begin(), end);
  const std::size_t begin = same.rfind('\0') + 1;
  return fmt::format("the ranks were started with different arguments: argument {} is {} on rank 0 and {} on rank {}",
                     std::count(same.begin(), same.end(), '\0') + 1, argument_at(first, begin),
                     argument_at(mine, begin), processes().rank());
}

}  // namespace

const Processes& job_processes() { return processes(); }

void require_same_arguments(int argument_count, char** arguments) {
  std::string mine;
  for (int i = 1; i < argument_count; ++i) mine.append(arguments[i]).push_back('\0');
  const std::string first = processes().share(mine);
  if (const auto difference = processes().first_text(find_difference(first, mine))) throw UsageError(*difference);
}

void do_once_in_job(const std::function<void()>& action) {
  processes().do_together([&] {
    if (processes().is_speaker()) action();
  });
}

std::string read_in_job(const std::function<std::string()>& read) {
  std::string text;
  do_once_in_job([&] { text = read(); });
  return processes().share(std::move(text));
}

}  // namespace retile::command
