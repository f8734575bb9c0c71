// retile run FILE.spmd
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/runtime/program_report.h"
#include "tools/retile/options.h"

namespace retile::command {

// The arguments that only a program has.
struct ProgramArguments {
  std::vector<std::string> arguments;  // NAME=FILE
  std::vector<std::string> outputs;    // NAME=FILE
  bool verify = false;
};

void add_program_options(Command command, ProgramArguments& arguments);

// Whether one of them was given.
bool is_given(const ProgramArguments& arguments);

// Runs the program in the file and prints its results. A memory limit is in bytes per device.
void run_program_file(const std::string& path, const ProgramArguments& arguments,
                      const std::optional<std::string>& memory_limit, PlanOptions planning,
                      runtime::ProgramRunOptions options, bool json, Engine& engine);

}  // namespace retile::command
