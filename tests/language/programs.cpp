#include "tests/language/programs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace retile::test {

std::string faults_of(const std::string& text) {
  std::string said;
  try {
    language::read_program({"program", text});
  } catch (const language::ProgramError& error) {
    for (const Diagnostic& diagnostic : error.diagnostics()) said += to_string(diagnostic);
  }
  return said;
}

language::CheckedProgram checked(const std::string& text) { return language::read_program({"program", text}); }

language::SyntaxTree parsed(const std::string& text) {
  language::ParseResult result = language::parse_program({"program", text});
  if (!result.diagnostics.empty()) throw InputError(result.diagnostics.front());
  return std::move(result.tree);
}

std::string read_source(const std::string& path) {
  std::ifstream file(std::string(RETILE_SOURCE_DIR) + "/" + path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<Rule> read_rules() {
  std::vector<Rule> rules;
  std::string* part = nullptr;
  std::istringstream lines(read_source("tests/language/golden/rules.txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("=== ")) {
      rules.push_back({line.substr(4), {}, {}, {}});
      part = nullptr;
    } else if (line == "--- right") {
      part = &rules.back().right;
    } else if (line == "--- wrong") {
      part = &rules.back().wrong;
    } else if (line == "--- said") {
      part = &rules.back().said;
    } else if (part != nullptr) {
      *part += line + "\n";
    }
  }
  for (Rule& rule : rules) {  // a blank line ends a section
    if (rule.said.ends_with("\n\n")) rule.said.pop_back();
  }
  return rules;
}

std::vector<NamedProgram> right_programs() {
  namespace fs = std::filesystem;
  std::vector<NamedProgram> programs;
  const fs::path root(RETILE_SOURCE_DIR);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "examples")) {
    const bool wrong = entry.path().filename().string().starts_with("wrong");
    if (entry.path().extension() != ".spmd" || wrong) continue;
    const std::string path = fs::relative(entry.path(), root).generic_string();
    programs.push_back({path, read_source(path)});
  }
  std::sort(programs.begin(), programs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const Rule& rule : read_rules()) programs.push_back({rule.name, rule.right});
  return programs;
}

}  // namespace retile::test
