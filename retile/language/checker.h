// The checker of programs: from a syntax tree to a program that can run.
#pragma once

#include <optional>
#include <vector>

#include "retile/base/input_errors.h"
#include "retile/language/program.h"
#include "retile/language/syntax.h"

namespace retile::language {

struct CheckResult {
  std::optional<Program> program;       // set where there are no diagnostics and no gaps
  std::vector<Diagnostic> diagnostics;  // in the order of the text; gaps of the tree have none
};

CheckResult check_program(const SyntaxTree& tree);

// The error of a faulty program, with all of its faults.
using ProgramError = InputErrors;

struct CheckedProgram {
  SyntaxTree tree;
  Program program;
};

// Parses and checks a program. Throws ProgramError with the faults of both in the order of the text.
CheckedProgram read_program(SourceText source);

}  // namespace retile::language
