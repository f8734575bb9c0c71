// The option that names the engine of a run, and the options that belong to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"
#include "tools/retile/job.h"
#include "tools/retile/options.h"

namespace retile::command {

struct EngineArguments {
  std::string engine = is_in_job() ? "mpi" : "threads";
  int threads = 0;  // 0: one for each core
  std::string transport = "auto";
  std::string device_map = "row-major";
  std::int64_t staging = mpi::MpiOptions().staging_bytes;
  Command command;  // knows which options were given
};

// Which engines can be chosen. Transfers cannot use engines that move one array at a time.
enum class EngineChoice { all, of_transfers };

void add_engine_options(Command command, EngineArguments& arguments, EngineChoice choice = EngineChoice::all);

// Throws UsageError where an option belongs to another engine.
void check_engine_options(const EngineArguments& arguments);

// The number of threads of the threads engine.
int thread_count(const EngineArguments& arguments);

// Starts the engine. MPI ranks share what crosses between hosts by the links of `machine`, a file, where one is given.
// Throws UsageError where an option belongs to another engine, InputError where an argument is at fault, and
// RuntimeError where the engine cannot start.
std::unique_ptr<Engine> make_engine(const EngineArguments& arguments, const std::optional<std::string>& machine = {});

// Throws UsageError where the engine's processes cannot divide so many devices among them: the user chooses the number
// of ranks and the devices of each.
void require_ranks(const Engine& engine, std::int64_t devices);

}  // namespace retile::command
