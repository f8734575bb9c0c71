// Lowering: gives a movement to every statement that moves data. The lowered program is what is printed, counted and
// run.
#pragma once

#include <memory>
#include <vector>

#include "retile/language/program.h"
#include "retile/planner/planner.h"

namespace retile::language {

struct LoweredStatement {
  std::shared_ptr<const Movement> movement;  // null where the statement moves no data
  std::shared_ptr<const Plan> plan;          // null unless it is a redistribution
};

struct LoweredProgram {
  Program program;
  PlanOptions options;                                    // that plans were made with
  std::vector<std::vector<LoweredStatement>> statements;  // by function and statement
};

// Lowers a program. Equal redistributions are planned once, and share their movement. The memory limit of the options
// is for the whole program on their engine: if the planner is auto and wide plans do not fit, all plans are lean.
// Throws InputError, at the statement, where there is no plan or too much memory is needed (with the smallest limit
// that works), and where calls nest too deep.
LoweredProgram lower_program(Program program, const PlanOptions& options = {});

}  // namespace retile::language
