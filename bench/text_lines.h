// Files of problems and plans, one a line, and of machines.
#pragma once

#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/machine/machine.h"
#include "retile/planner/problem.h"

namespace retile::bench {

// The lines of a file that are not blank, with their numbers. Throws InputError where it cannot be read.
std::vector<SourceText> read_lines(const std::string& path);

std::vector<Problem> read_problems(const std::string& path);

Machine read_machine(const std::string& path);

}  // namespace retile::bench
