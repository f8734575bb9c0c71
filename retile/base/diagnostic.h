// Diagnostics: what is wrong with the user's input, where, and what to do about it.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/base/error.h"
#include "retile/base/palette.h"

namespace retile {

// Half-open range of bytes in a SourceText.
struct SourceRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// A user's text, and the name to report it under: a file, or "argument SRC".
struct SourceText {
  std::string name;
  std::string text;
  int first_line = 1;  // line number of the text's first line within what `name` names
};

// Why a value is not legal, before it is known where in a text it stands.
struct Fault {
  std::string message;
  std::string hint;  // may be empty
};

struct Diagnostic : Fault {
  std::string source_name = {};        // empty: the fault has no place in a text
  int line = 0;                        // from 1; 0 without a place
  int column = 0;                      // from 1, in characters
  std::string line_text = {};          // the line at fault, without its end
  int length = 1;                      // characters under the caret's underline
  SourceRange range = {};              // the place in bytes
  std::vector<Diagnostic> notes = {};  // other places that matter, such as where a name is declared
};

// Places a fault in the text. A range beyond the text's end is clamped to it.
Diagnostic diagnose(const SourceText& source, SourceRange range, const Fault& fault);
inline Diagnostic diagnose(const SourceText& source, SourceRange range, std::string message, std::string hint = {}) {
  return diagnose(source, range, Fault{std::move(message), std::move(hint)});
}

// "name:line:column: error: message", the line with a caret, the hint; then the notes in the same manner.
std::string to_string(const Diagnostic& diagnostic, const Palette& palette = plain);

// The user's input is at fault.
class InputError : public std::runtime_error {
 public:
  explicit InputError(Diagnostic diagnostic);
  explicit InputError(const Fault& fault);
  InputError(std::string message, std::string hint) : InputError(Fault{std::move(message), std::move(hint)}) {}
  const Diagnostic& diagnostic() const { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
};

// The input is right, but a memory limit is too small for it.
class MemoryLimitError : public InputError {
 public:
  using InputError::InputError;
};

// A program failed while it ran, at a place in its text. what() is the printed diagnostic without its last end of line.
class ProgramFailure : public RuntimeError {
 public:
  explicit ProgramFailure(Diagnostic diagnostic);
  const Diagnostic& diagnostic() const { return diagnostic_; }

 private:
  Diagnostic diagnostic_;
};

}  // namespace retile
