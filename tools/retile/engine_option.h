// The option that names the engine of a run, and those that go with it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"
#include "tools/retile/job.h"

namespace retile::command {

struct EngineArguments {
  std::string engine = is_in_job() ? "mpi" : "threads";
  int threads = 0;  // 0: one for each core
  std::string transport = "auto";
  std::string device_map = "row-major";
  std::int64_t staging = mpi::MpiOptions().staging_bytes;
  const CLI::App* command = nullptr;  // which knows what was given
};

// Engines that move one array at a time are of no use to transfers.
enum class EngineChoice { all, of_transfers };

void add_engine_options(CLI::App& command, EngineArguments& arguments, EngineChoice choice = EngineChoice::all);

// Throws UsageError where an option goes with another engine.
void check_engine_options(const EngineArguments& arguments);

// The number of threads of the threads engine.
int thread_count(const EngineArguments& arguments);

// Throws UsageError where an option goes with another engine, InputError where an argument is at fault, and
// RuntimeError where the engine cannot start.
std::unique_ptr<Engine> make_engine(const EngineArguments& arguments);

// Throws UsageError where the engine's processes cannot share out so many devices: how many ranks there are, and which
// devices are theirs, is up to the user.
void require_ranks(const Engine& engine, std::int64_t devices);

}  // namespace retile::command
