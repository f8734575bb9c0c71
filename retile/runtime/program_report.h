// A whole run of a program: arguments in, repeated, checked, its results summed up and written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "retile/checking/run.h"
#include "retile/engines/engine.h"
#include "retile/language/lowering.h"

namespace retile::runtime {

struct ProgramRunOptions {
  std::uint64_t seed = 0;                        // of arguments that are made up
  std::map<std::string, std::string> arguments;  // .npy files by parameter of the main function
  std::map<std::string, std::string> outputs;    // .npy files by name of a value that the main function returns
  int repetitions = 1;                           // results are those of the last
  bool verify = false;                           // compare with a run that puts global arrays together
  std::function<void()> after_statement;         // for progress; may be empty
};

struct ResultReport {
  std::string name;
  std::string type;
  Shape shape;
  std::uint64_t checksum = 0;         // see results.h
  std::vector<std::string> elements;  // the first ones
};

struct ProgramReport : RunReport {
  std::vector<ResultReport> results;
  bool verified = false;  // compared with what it should be, and no difference found
};

// Throws InputError where arguments and outputs do not fit the main function, RuntimeError where the run fails, or the
// machine has not the memory for it. With several processes it is collective, and the report is the same on all but for
// the seconds.
ProgramReport run_and_report(const language::LoweredProgram& lowered, Engine& engine,
                             const ProgramRunOptions& options = {});

// How often a run calls after_statement.
std::int64_t count_statements(const language::Program& program, const ProgramRunOptions& options);

// One line, without its end.
std::string to_json(const ProgramReport& report);

}  // namespace retile::runtime
