// What tests of the language share: programs as text, and what a user would read about them.
#pragma once

#include <string>
#include <vector>

#include "retile/language/checker.h"
#include "retile/language/parser.h"

namespace retile::test {

// All diagnostics of a program, printed; empty for one that is right.
std::string faults_of(const std::string& text);

// `text` is a program without faults.
language::CheckedProgram checked(const std::string& text);
language::SyntaxTree parsed(const std::string& text);

// The text of a file of the repository.
std::string read_source(const std::string& path);

// The programs of examples/ and of the right sections of golden/rules.txt.
struct NamedProgram {
  std::string name;
  std::string text;
};
std::vector<NamedProgram> right_programs();

struct Rule {
  std::string name;
  std::string right;
  std::string wrong;
  std::string said;
};
std::vector<Rule> read_rules();

}  // namespace retile::test
