#include "bench/text_lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace retile::bench {

std::vector<SourceText> read_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<SourceText> lines;
  int number = 0;
  for (std::string text; std::getline(file, text);) {
    ++number;
    if (text.find_first_not_of(" \t\r") != std::string::npos) lines.push_back({path, text, number});
  }
  if (!file.is_open() || file.bad()) {
    throw InputError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)), {});
  }
  return lines;
}

std::vector<Problem> read_problems(const std::string& path) {
  std::vector<Problem> problems;
  for (const SourceText& line : read_lines(path)) problems.push_back(parse_problem(line));
  return problems;
}

Machine read_machine(const std::string& path) {
  std::string text;
  for (const SourceText& line : read_lines(path)) text += line.text + "\n";
  return parse_machine({path, text});
}

}  // namespace retile::bench
