#include "retile/base/json_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace retile {
namespace {

constexpr const char* white_space = " \t\r\n";

enum class Search { closing_bracket, next_value };

// The end of the line on which the first bracket's partner stands; of the first line, where that has no bracket. Where
// nothing closes the bracket, there is none, unless the next value ends the search: a line that begins with '{'.
std::size_t end_of_value(std::string_view text, Search search) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      if (depth <= 0 || (search == Search::next_value && text.substr(i + 1).starts_with('{'))) return i;
      quoted = false;  // strings end on their line
    }
    if (quoted && c == '\\') ++i;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
  }
  return depth <= 0 || search == Search::next_value ? text.size() : std::string_view::npos;
}

}  // namespace

std::vector<SourceText> split_values(const SourceText& file) {
  std::vector<SourceText> values;
  std::string_view rest = file.text;
  int line = file.first_line;
  Search search = Search::closing_bracket;
  const auto skip = [&](std::size_t count) {
    line += static_cast<int>(std::count(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    rest.remove_prefix(count);
  };
  while (rest.find_first_not_of(white_space) != std::string_view::npos) {
    skip(rest.substr(0, rest.find_first_not_of(white_space)).rfind('\n') + 1);  // blank lines
    std::size_t end = end_of_value(rest, search);
    if (end == std::string_view::npos) {  // a broken value: the others are still found
      search = Search::next_value;
      end = end_of_value(rest, search);
    }
    const std::string_view value = rest.substr(0, end);  // where it is broken, the lines up to the end of the file
    values.push_back({file.name, std::string(value.substr(0, value.find_last_not_of(white_space) + 1)), line});
    skip(std::min(end + 1, rest.size()));
  }
  return values;
}

std::vector<SourceText> split_objects(const SourceText& file, const std::string& what) {
  std::vector<SourceText> values = split_values(file);
  const auto is_object = [](const SourceText& value) {
    return value.text.find_first_not_of(white_space) == value.text.find('{');
  };
  // A mistake in a line is told in its place; a file of another kind, once.
  if (values.size() != 1 && std::none_of(values.begin(), values.end(), is_object)) {
    throw InputError(
        diagnose(file, {0, 0}, fmt::format("there are no {} in this file", what), "each line is one, as JSON"));
  }
  return values;
}

}  // namespace retile
