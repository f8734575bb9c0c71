// The parser of programs.
#pragma once

#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/language/syntax.h"

namespace retile::language {

// The most faults that are reported for one text. Parsing stops after them.
constexpr std::size_t most_diagnostics = 100;

struct ParseResult {
  SyntaxTree tree;  // has gaps where there are diagnostics
  std::vector<Diagnostic> diagnostics;
};

// Parses a program. After a fault, continues with the next statement or declaration.
ParseResult parse_program(SourceText source);

}  // namespace retile::language
