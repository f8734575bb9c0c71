// Every command in the documents prints what stands below it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace retile::test {
namespace {

struct Command {
  std::string place;   // file:line
  std::string text;    // behind "$ "
  std::string output;  // as it is shown; … stands for anything within a line
};

// Of blocks that begin with "$ ".
std::vector<Command> commands_in(const std::string& path) {
  std::vector<Command> commands;
  std::ifstream file(std::string(RETILE_SOURCE_DIR) + "/" + path);
  bool inside = false;
  bool shows_commands = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.starts_with("```")) {
      inside = !inside;
      shows_commands = false;
    } else if (inside && line.starts_with("$ ")) {
      shows_commands = true;
      commands.push_back({path + ":" + std::to_string(number), line.substr(2), {}});
    } else if (shows_commands) {
      commands.back().output += line + "\n";
    }
  }
  return commands;
}

bool matches(std::string_view text, std::string_view pattern) {
  constexpr std::string_view anything = "…";
  const std::size_t gap = pattern.find(anything);
  if (gap == std::string_view::npos) return text == pattern;
  if (!text.starts_with(pattern.substr(0, gap))) return false;
  const std::string_view rest = pattern.substr(gap + anything.size());
  for (std::size_t i = gap; i <= text.size() && (i == gap || text[i - 1] != '\n'); ++i) {
    if (matches(text.substr(i), rest)) return true;
  }
  return false;
}

std::vector<std::string> documents() {
  std::vector<std::string> paths{"README.md", "examples/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(std::string(RETILE_SOURCE_DIR) + "/docs")) {
    if (entry.path().extension() == ".md") paths.push_back("docs/" + entry.path().filename().string());
  }
  return paths;
}

TEST(Documents, show_what_their_commands_print) {
  const std::string folder = std::filesystem::path(RETILE_COMMAND).parent_path();
  int count = 0;
  for (const std::string& path : documents()) {
    for (const Command& command : commands_in(path)) {
      if (!command.text.starts_with("retile ")) continue;  // others need what is not there
      ++count;
      const std::string script = "export PATH=" + folder + ":$PATH; " + command.text + " 2>&1";
      const ProcessResult result = run_process({"/bin/bash", "-c", script}, {"", RETILE_SOURCE_DIR});
      EXPECT_TRUE(matches(result.output, command.output)) << command.place << " prints\n"
                                                          << result.output << "instead of\n"
                                                          << command.output;
    }
  }
  EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace retile::test
