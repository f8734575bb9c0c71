#include "tests/support/documents.h"

#include <fstream>

namespace retile::test {

std::vector<ShownCommand> commands_in(const std::string& path) {
  std::vector<ShownCommand> commands;
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

bool matches_shown(std::string_view text, std::string_view shown) {
  constexpr std::string_view anything = "…";
  const std::size_t gap = shown.find(anything);
  if (gap == std::string_view::npos) return text == shown;
  if (!text.starts_with(shown.substr(0, gap))) return false;
  const std::string_view rest = shown.substr(gap + anything.size());
  for (std::size_t i = gap; i <= text.size() && (i == gap || text[i - 1] != '\n'); ++i) {
    if (matches_shown(text.substr(i), rest)) return true;
  }
  return false;
}

}  // namespace retile::test
