// The MPI job in which this process is a rank, if mpirun started several processes; otherwise the process alone.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"

namespace retile::command {

// Whether mpirun started this process together with others.
bool is_in_job();
// Whether mpirun started this process: its output goes through mpirun, even if it looks like a terminal.
bool is_launched();

// The ranks of the job; this process alone where there is none.
const Processes& job_processes();
// The number of threads of a rank, if the ranks of a host share its cores.
int cores_of_rank();

// Makes the process a rank of its job, from here to the end of its life. Only the first rank writes to standard output.
class Job {
 public:
  // Throws RuntimeError where MPI does not start.
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();
};

// Starts MPI if necessary. Throws RuntimeError where retile was built without it.
std::unique_ptr<Engine> make_job_engine(const mpi::MpiOptions& options);

// Throws UsageError on all ranks where their arguments differ: they would wait for each other forever.
void require_same_arguments(int argument_count, char** arguments);

// Does the action on the first rank only, such as writing a file. What it throws, all ranks throw.
void do_once_in_job(const std::function<void()>& action);

// Reads on the first rank, and gives all ranks the text, or throws its error on all: standard input belongs to the
// first rank, and files may differ between hosts.
std::string read_in_job(const std::function<std::string()>& read);

// Writes an error to standard error; once, if all ranks have it. Otherwise the other ranks wait for this one, and the
// whole job ends with the status. Allocates nothing: there may be no memory.
void report_failure(int status, const char* message);

}  // namespace retile::command
