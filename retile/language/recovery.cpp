#include "retile/language/recovery.h"

#include <algorithm>
#include <string>

namespace retile::language {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

std::string_view word_at(std::string_view text, std::size_t position) {
  std::size_t end = position;
  while (end < text.size() && is_word(text[end])) ++end;
  return text.substr(position, end - position);
}

std::size_t skip_space(std::string_view text, std::size_t position) {
  while (position < text.size()) {
    const std::size_t behind = skip_comment(text, position);
    if (behind == position && !is_space(text[position])) break;
    position = behind == position ? position + 1 : behind;
  }
  return position;
}

bool starts_declaration(std::string_view text, std::size_t position) {
  const std::string_view word = word_at(text, position);
  return word == "fn" || word == "type" || word == "mesh";
}

// Whether a statement starts here: a name, even one that is wrongly quoted, before = or a comma.
bool starts_statement(std::string_view text, std::size_t position) {
  const std::string_view word = word_at(text, position);
  const std::size_t end = std::max(position + word.size(), skip_quotes(text, position));
  if (end == position) return false;
  const std::size_t next = skip_space(text, end);
  return next < text.size() && (text[next] == '=' || text[next] == ',');
}

// A walk from token to token.
class Walk {
 public:
  Walk(std::string_view text, std::size_t position) : text_(text), position_(position) {}

  bool at_end() const { return position_ >= text_.size(); }
  std::size_t position() const { return position_; }
  char here() const { return text_[position_]; }
  // Whether the token here is the first of a line after the one where the walk started.
  bool starts_line() const { return starts_line_; }

  void advance() {
    std::size_t behind = skip_quotes(text_, position_);
    if (behind == position_) behind += std::max<std::size_t>(1, word_at(text_, position_).size());
    const std::size_t next = skip_space(text_, behind);
    starts_line_ = text_.substr(behind, next - behind).find('\n') != std::string_view::npos;
    position_ = next;
  }

 private:
  std::string_view text_;
  std::size_t position_;
  bool starts_line_ = false;
};

// The open brackets. A closing bracket also closes those inside it that were left open.
class OpenBrackets {
 public:
  bool in_braces() const { return open_.find('{') != std::string::npos; }
  bool empty() const { return open_.empty(); }

  void see(char c) {
    if (c == '(' || c == '[' || c == '{') open_ += c;
    if (c == ')') close('(');
    if (c == ']') close('[');
    if (c == '}') close('{');
  }

 private:
  void close(char opening) {
    const std::size_t position = open_.rfind(opening);
    if (position != std::string::npos) open_.erase(position);
  }

  std::string open_;
};

// The end of the bracket that begins here. Brackets of types contain no =.
std::optional<std::size_t> skip_brackets(std::string_view text, std::size_t begin) {
  OpenBrackets brackets;
  for (Walk walk(text, begin); !walk.at_end() && walk.here() != '='; walk.advance()) {
    brackets.see(walk.here());
    if (brackets.empty()) return walk.position() + 1;
  }
  return std::nullopt;
}

}  // namespace

std::size_t skip_comment(std::string_view text, std::size_t position) {
  const std::string_view start = text.substr(position, 2);
  if (start == "//") return std::min(text.find('\n', position), text.size());
  if (start != "/*") return position;
  const std::size_t end = text.find("*/", position + 2);
  return end == std::string_view::npos ? text.size() : end + 2;
}

std::size_t skip_quotes(std::string_view text, std::size_t position) {
  if (position >= text.size() || text[position] != '"') return position;
  std::size_t end = position + 1;
  for (; end < text.size() && text[end] != '\n'; ++end) {
    if (text[end] == '"') return end + 1;
    if (text[end] == '\\' && end + 1 < text.size() && text[end + 1] != '\n') ++end;
  }
  return end;
}

std::size_t skip_statement(std::string_view text, std::size_t begin) {
  OpenBrackets brackets;
  Walk walk(text, begin);
  for (; !walk.at_end(); walk.advance()) {
    const bool is_first = walk.position() == begin;
    if ((walk.starts_line() || is_first) && starts_declaration(text, walk.position())) break;
    if (walk.starts_line() && !brackets.in_braces() && starts_statement(text, walk.position())) break;
    if (!is_first && !brackets.in_braces() && word_at(text, walk.position()) == "return") break;
    if (walk.here() == '}' && !brackets.in_braces()) break;
    brackets.see(walk.here());
  }
  return walk.position();
}

std::size_t skip_declaration(std::string_view text, std::size_t begin) {
  Walk walk(text, begin);
  while (!walk.at_end() && !(walk.starts_line() && starts_declaration(text, walk.position()))) walk.advance();
  return walk.position();
}

std::optional<std::size_t> skip_type(std::string_view text, std::size_t begin) {
  const std::size_t bracket = skip_space(text, begin + word_at(text, begin).size());
  if (bracket >= text.size() || text[bracket] != '[') return std::nullopt;
  std::optional<std::size_t> end = skip_brackets(text, bracket);
  while (end) {
    std::size_t next = skip_space(text, *end);
    const std::string_view word = word_at(text, next);
    if (word == "sum" || word == "at") next = skip_space(text, next + word.size());
    const bool goes_on = next < text.size() && (text[next] == '[' || (word == "sum" && text[next] == '{'));
    if (!goes_on) break;
    end = skip_brackets(text, next);
  }
  return end;
}

}  // namespace retile::language
