// The checker of programs: from what is written to what can run.
#pragma once

#include <optional>
#include <vector>

#include "retile/base/input_errors.h"
#include "retile/language/program.h"
#include "retile/language/syntax.h"

namespace retile::language {

struct CheckResult {
  std::optional<Program> program;       // where there are no diagnostics and no gaps
  std::vector<Diagnostic> diagnostics;  // in the order of the text; none for the tree's gaps
};

CheckResult check_program(const SyntaxTree& tree);

// A program that is at fault, with all that is wrong with it.
using ProgramError = InputErrors;

struct CheckedProgram {
  SyntaxTree tree;
  Program program;
};

// Parses and checks. Throws ProgramError with the faults of both in the order of the text.
CheckedProgram read_program(SourceText source);

}  // namespace retile::language
