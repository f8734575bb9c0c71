#include "retile/base/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/utf8.h"

namespace retile {
namespace {

// ASCII only: the locale must not change what parses.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_word_start(c) || is_digit(c); }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

bool is_bare_name(std::string_view name) {
  return !name.empty() && is_word_start(name[0]) && std::all_of(name.begin(), name.end(), is_word);
}

std::string quote_name(std::string_view name) {
  if (is_bare_name(name)) return std::string(name);
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

void Scanner::skip_space() {
  const std::string_view text = source_.text;
  while (position_ < text.size()) {
    if (is_space(text[position_])) {
      ++position_;
    } else if (text.substr(position_, 2) == "//") {
      position_ = std::min(text.find('\n', position_), text.size());
    } else if (text.substr(position_, 2) == "/*") {
      const std::size_t end = text.find("*/", position_ + 2);
      if (end == std::string_view::npos) {
        fail({position_, position_ + 2}, "this comment is never closed", "close it with */");
      }
      position_ = end + 2;
    } else {
      return;
    }
  }
}

bool Scanner::at_end() {
  skip_space();
  return position_ == source_.text.size();
}

std::size_t Scanner::next_position() {
  skip_space();
  return position_;
}

bool Scanner::looking_at(std::string_view symbol) {
  skip_space();
  return std::string_view(source_.text).substr(position_, symbol.size()) == symbol;
}

bool Scanner::looking_at_name() {
  skip_space();
  return is_word_start(peek()) || peek() == '"';
}

bool Scanner::looking_at_digit() {
  skip_space();
  return is_digit(peek());
}

std::string_view Scanner::peek_word() {
  skip_space();
  std::size_t end = position_;
  while (end < source_.text.size() && is_word(source_.text[end])) ++end;
  return std::string_view(source_.text).substr(position_, end - position_);
}

bool Scanner::accept(std::string_view symbol) {
  if (!looking_at(symbol)) return false;
  last_ = {position_, position_ + symbol.size()};
  position_ += symbol.size();
  return true;
}

void Scanner::expect(std::string_view symbol, std::string_view purpose) {
  if (accept(symbol)) return;
  fail_here(fmt::format("expected '{}' {}, found {}", symbol, purpose, describe_ahead()));
}

bool Scanner::accept_word(std::string_view word) { return peek_word() == word && accept(word); }

void Scanner::expect_word(std::string_view word, std::string_view purpose) {
  if (accept_word(word)) return;
  fail_here(fmt::format("expected '{}' {}, found {}", word, purpose, describe_ahead()));
}

void Scanner::expect_end(std::string_view what) {
  if (at_end()) return;
  fail_here(fmt::format("expected the end of {}, found {}", what, describe_ahead()));
}

std::string Scanner::name(std::string_view what) {
  skip_space();
  if (peek() == '"') return quoted(what);
  if (!is_word_start(peek())) {
    fail_here(fmt::format("expected {}, found {}", what, describe_ahead()),
              "names are letters, digits and _, or any text in double quotes");
  }
  const std::string_view word = peek_word();
  last_ = {position_, position_ + word.size()};
  position_ += word.size();
  return std::string(word);
}

std::string Scanner::quoted(std::string_view what) {
  skip_space();
  const char quote = peek();
  if (quote != '"' && quote != '\'') {
    fail_here(fmt::format("expected {} in quotes, found {}", what, describe_ahead()));
  }
  const std::size_t begin = position_;
  std::string name;
  for (++position_; peek() != quote; ++position_) {
    if (position_ >= source_.text.size() || peek() == '\n') {
      fail({begin, position_}, fmt::format("the quotes around {} are never closed", what));
    }
    if (peek() == '\\') {
      ++position_;
      if (peek() != quote && peek() != '\\') {
        fail({position_ - 1, position_ + 1}, "unknown escape in a quoted name",
             fmt::format("only \\{} and \\\\ are escapes", quote));
      }
    }
    name += peek();
  }
  ++position_;
  last_ = {begin, position_};
  return name;
}

std::int64_t Scanner::size(std::string_view what) {
  const std::int64_t value = number(what);
  if (value == 0) fail(last_, fmt::format("{} is 0", what), "sizes start at 1");
  return value;
}

std::int64_t Scanner::index(std::string_view what) { return number(what); }

std::int64_t Scanner::number(std::string_view what) {
  skip_space();
  const std::size_t begin = position_;
  if (peek() == '-' && position_ + 1 < source_.text.size() && is_digit(source_.text[position_ + 1])) {
    std::size_t end = position_ + 1;
    while (end < source_.text.size() && is_digit(source_.text[end])) ++end;
    fail({begin, end}, fmt::format("{} is negative", what));
  }
  if (!is_digit(peek())) {
    fail_here(fmt::format("expected {}, found {}", what, describe_ahead()));
  }
  std::optional<std::int64_t> value = 0;
  while (is_digit(peek())) {
    if (value) value = checked_multiply(*value, 10);
    if (value) value = checked_add(*value, peek() - '0');
    ++position_;
  }
  last_ = {begin, position_};
  if (!value) {
    fail(last_, fmt::format("{} does not fit in 63 bits", what), "the largest size is 9223372036854775807");
  }
  return *value;
}

// False where there is none.
bool Scanner::skip_digits() {
  const std::size_t begin = position_;
  while (is_digit(peek())) ++position_;
  return position_ > begin;
}

std::string Scanner::decimal(std::string_view what) {
  skip_space();
  const std::size_t begin = position_;
  if (!skip_digits()) fail_here(fmt::format("expected {}, found {}", what, describe_ahead()));
  bool whole = true;  // every part that was started has its digits
  if (peek() == '.') {
    ++position_;
    whole = skip_digits();
  }
  if (whole && (peek() == 'e' || peek() == 'E')) {
    ++position_;
    if (peek() == '+' || peek() == '-') ++position_;
    whole = skip_digits();
  }
  last_ = {begin, position_};
  if (!whole || is_word(peek())) {
    while (is_word(peek())) ++position_;
    fail({begin, position_}, fmt::format("{} is cut short or runs into a word", what), "as in 12, 1.5 or 2e-3");
  }
  return source_.text.substr(begin, position_ - begin);
}

SourceRange Scanner::token_ahead() const {
  const std::string_view text = source_.text;
  if (position_ >= text.size()) return {text.size(), text.size()};
  std::size_t end = position_ + 1;
  if (is_word(text[position_])) {
    while (end < text.size() && is_word(text[end])) ++end;
  } else {
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
  }
  return {position_, end};
}

std::string Scanner::describe_ahead() {
  skip_space();
  const SourceRange ahead = token_ahead();
  if (ahead.begin == ahead.end) return "the end";
  const std::string token = source_.text.substr(ahead.begin, ahead.end - ahead.begin);
  if (!is_valid_utf8(token)) return "a byte that is not UTF-8";
  return is_printable(token) ? fmt::format("'{}'", token) : "a control character";
}

void Scanner::fail(SourceRange range, const Fault& fault) const { throw InputError(diagnose(source_, range, fault)); }

void Scanner::fail_here(std::string message, std::string hint) {
  skip_space();
  fail(token_ahead(), std::move(message), std::move(hint));
}

}  // namespace retile
