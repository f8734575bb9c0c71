// Reads the tokens of a user's text: names, sizes and symbols, with a diagnostic for what is wrong.
// White space and comments (// to the end of the line, /* to */) may stand between tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "retile/base/diagnostic.h"

namespace retile {

class Scanner {
 public:
  // The source must outlive the scanner.
  explicit Scanner(const SourceText& source) : source_(source) {}

  bool at_end();
  bool looking_at(std::string_view symbol);
  bool looking_at_name();
  bool looking_at_digit();
  // The word ahead (letters, digits, _), or nothing.
  std::string_view peek_word();

  // Consumes the symbol if it is next.
  bool accept(std::string_view symbol);
  // `purpose` completes "expected ',' …", e.g. "between dimensions".
  void expect(std::string_view symbol, std::string_view purpose);
  // Words: "as" is not the start of "ascent".
  bool accept_word(std::string_view word);
  void expect_word(std::string_view word, std::string_view purpose);
  void expect_end(std::string_view what);

  // A bare name (letters, digits, _) or a quoted one, unescaped. `what` names it in errors.
  std::string name(std::string_view what);
  // A name in single or double quotes, unescaped.
  std::string quoted(std::string_view what);
  // A whole number from 1 to 2^63 - 1.
  std::int64_t size(std::string_view what);
  // A whole number from 0.
  std::int64_t index(std::string_view what);
  // A number without a sign as it is written: 12, 1.5, 2e-3.
  std::string decimal(std::string_view what);

  // Range of the last token that was read.
  SourceRange last() const { return last_; }
  // The next token in words, for errors: "'x'", "the end".
  std::string describe_ahead();
  // Where the next token starts.
  std::size_t next_position();
  // Goes on at this byte of the text: after a fault, or back to where something may be read in another way.
  void go_to(std::size_t position) { position_ = position; }

  [[noreturn]] void fail(SourceRange range, const Fault& fault) const;
  [[noreturn]] void fail(SourceRange range, std::string message, std::string hint = {}) const {
    fail(range, Fault{std::move(message), std::move(hint)});
  }
  // Fails at the next token.
  [[noreturn]] void fail_here(std::string message, std::string hint = {});

 private:
  void skip_space();
  char peek() const { return position_ < source_.text.size() ? source_.text[position_] : '\0'; }
  std::int64_t number(std::string_view what);
  bool skip_digits();
  // Range of the token ahead, for errors; the end of the text is an empty range.
  SourceRange token_ahead() const;

  const SourceText& source_;
  std::size_t position_ = 0;
  SourceRange last_;
};

// True for names that need no quotes: a letter or _, then letters, digits and _.
bool is_bare_name(std::string_view name);

// The name as the scanner reads it back: bare where it can be, otherwise quoted and escaped.
std::string quote_name(std::string_view name);

}  // namespace retile
