// Lowering: every statement that moves data gets its movement. What is lowered is what prints, is counted and runs.
#pragma once

#include <memory>
#include <vector>

#include "retile/language/program.h"
#include "retile/planner/planner.h"

namespace retile::language {

struct LoweredStatement {
  std::shared_ptr<const Movement> movement;  // of what moves data
  std::shared_ptr<const Plan> plan;          // of a redistribution
};

struct LoweredProgram {
  Program program;
  PlanOptions options;                                    // of its plans
  std::vector<std::vector<LoweredStatement>> statements;  // by function and statement
};

// Equal redistributions are planned once, and share their movement. The memory limit of the options is for the whole
// program on their engine: where the planner is auto, it is lean for all where wide does not fit. Throws InputError at
// the statement where there is no plan or too much memory is needed, with the smallest limit that works, and where
// calls nest too deep.
LoweredProgram lower_program(Program program, const PlanOptions& options = {});

}  // namespace retile::language
