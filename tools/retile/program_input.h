// Where the command's programs come from.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "retile/language/checker.h"

namespace retile::command {

// Every diagnostic on standard error.
void print_diagnostics(const std::vector<Diagnostic>& diagnostics);

// Calls visit(program) for each file that holds a right one and returns the exit status. What is wrong with the others
// is reported on standard error. "-" is standard input.
int for_each_program(const std::vector<std::string>& paths,
                     const std::function<void(const language::CheckedProgram& program)>& visit);

}  // namespace retile::command
