// Commands in documents, and what stands below them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace retile::test {

struct ShownCommand {
  std::string place;   // file:line
  std::string text;    // behind "$ "
  std::string output;  // as it is shown

  // Whether it runs this program.
  bool needs(std::string_view program) const {
    return (" " + text).find(" " + std::string(program) + " ") != std::string::npos;
  }
};

// The commands of a file of the repository: lines in blocks that begin with "$ ".
std::vector<ShownCommand> commands_in(const std::string& path);

// In what is shown, … stands for anything within a line.
bool matches_shown(std::string_view text, std::string_view shown);

}  // namespace retile::test
