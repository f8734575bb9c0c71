// The MPI job that this process is a rank of, where mpirun started several; else the process alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"

namespace retile::command {

// True where mpirun started this process together with others.
bool is_in_job();
// True where mpirun started this process: what it writes goes through mpirun, which may look like a terminal to it.
bool is_launched();

// The ranks of the job; this process alone where there is none.
const Processes& job_processes();
// Threads of a rank, where the ranks of a host share its cores.
int cores_of_rank();

// From here to the end of its life, the process is a rank of its job. Only the first rank writes to standard output.
class Job {
 public:
  // Throws RuntimeError where MPI does not start.
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();
};

// Starts MPI if need be. Throws RuntimeError where retile was built without it.
std::unique_ptr<Engine> make_job_engine(const mpi::MpiOptions& options);

// Ranks that were told different things would wait for each other forever. Throws UsageError on all of them.
void require_same_arguments(int argument_count, char** arguments);

// Files are written by the first rank alone. What it throws, all ranks throw.
void do_once_in_job(const std::function<void()>& action);

// Standard input belongs to the first rank alone, and files may differ from host to host: what the first rank reads, or
// throws, all ranks get.
std::string read_in_job(const std::function<std::string()>& read);

// Writes to standard error what went wrong: once, where it went wrong for all ranks alike. Where it did not, the others
// wait for this one, and the whole job ends with the status. Takes no memory: there may be none.
void report_failure(int status, const char* message);

}  // namespace retile::command
