// Summaries of the data that a program moves and the memory that it needs, statement by statement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/language/lowering.h"

namespace retile::language {

// The data that a statement moves.
struct MovementFigures {
  std::int64_t steps = 0;
  std::int64_t cost = 0;            // under the plans' cost model, in elements
  std::int64_t received_bytes = 0;  // per device, at most
  std::int64_t peak_bytes = 0;      // per device, with the operand donated
};

struct MovementSummary {
  std::string function;
  std::string name;       // of the result
  int line = 0;           // in the source
  std::string operation;  // "redistribute", "allreduce", "allgather", …
  std::string from;
  std::string to;
  MovementFigures figures;
};

struct ProgramSummary {
  std::string planner;
  std::string cost_model;
  std::vector<MovementSummary> movements;  // of every function once, in the order of the source
  std::int64_t peak_bytes = 0;             // of the program, per device
  std::string peak_function;
  std::string peak_statement;  // the names that it declares, or "return"; empty on entry to the function
  int peak_line = 0;
};

// Counts memory for engines without staging. Throws InputError where a figure does not fit in 63 bits.
ProgramSummary summarize(const LoweredProgram& lowered);

std::string to_json(const ProgramSummary& summary);

}  // namespace retile::language
