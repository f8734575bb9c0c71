// What a program moves and what memory it needs, statement by statement.
#pragma once

#include <string>
#include <vector>

#include "retile/language/memory.h"
#include "retile/language/program_planner.h"

namespace retile::language {

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
  std::vector<MovementSummary> movements;  // every function's once, in the order of the source
  std::int64_t peak_bytes = 0;             // of the program, per device
  std::string peak_function;
  std::string peak_statement;  // the names that it declares; empty: when the function is entered
  int peak_line = 0;
};

// Throws InputError where there is no plan, or a figure does not fit in 63 bits.
ProgramSummary summarize(ProgramPlanner& planner);

std::string to_json(const ProgramSummary& summary);

}  // namespace retile::language
