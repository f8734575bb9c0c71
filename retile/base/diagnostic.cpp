#include "retile/base/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/list.h"
#include "retile/base/utf8.h"

namespace retile {
namespace {

// Longer lines are shown as a window around the caret, in characters.
constexpr int shown_width = 96;

struct Window {
  std::string text;
  int caret;  // characters before the caret
};

// The part of the line that holds the caret.
Window shown_window(const Diagnostic& diagnostic) {
  const std::vector<std::string> characters = split_characters(diagnostic.line_text);
  const int count = static_cast<int>(characters.size());
  const int caret = std::min(diagnostic.column - 1, count);
  const int first = count <= shown_width ? 0 : std::max(0, std::min(caret - shown_width / 2, count - shown_width));
  const int last = std::min(count, first + shown_width);
  Window window{first > 0 ? "..." : "", caret - first + (first > 0 ? 3 : 0)};
  for (int i = first; i < last; ++i) window.text += printable(at(characters, i));
  if (last < count) window.text += "...";
  return window;
}

// The kind is "error" or "note", in its colour.
std::string render(const Diagnostic& diagnostic, std::string_view kind, std::string_view color,
                   const Palette& palette) {
  std::string out;
  const std::string message =
      fmt::format("{} {}\n", Palette::paint(color, fmt::format("{}:", kind)), printable(diagnostic.message));
  if (diagnostic.line == 0) {
    out = message;
  } else {
    const Window window = shown_window(diagnostic);
    const std::string number = fmt::format("{:>5}", diagnostic.line);
    const int underline =
        std::clamp(diagnostic.length - 1, 0, std::max(0, count_characters(window.text) - window.caret - 1));
    out = fmt::format("{}:{}:{}: {}", diagnostic.source_name, diagnostic.line, diagnostic.column, message);
    out += fmt::format("{} | {}\n", number, window.text);
    out += fmt::format("{:{}} | {:{}}{}\n", "", number.size(), "", window.caret,
                       Palette::paint(color, fmt::format("^{:~>{}}", "", underline)));
  }
  if (!diagnostic.hint.empty()) {
    out += fmt::format("{} {}\n", Palette::paint(palette.hint, "hint:"), printable(diagnostic.hint));
  }
  return out;
}

std::string without_last_end_of_line(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

}  // namespace

Diagnostic diagnose(const SourceText& source, SourceRange range, const Fault& fault) {
  const std::string_view text = source.text;
  const std::size_t begin = std::min(range.begin, text.size());
  const std::size_t line_begin = begin == 0 ? 0 : text.rfind('\n', begin - 1) + 1;
  const std::size_t line_end = std::min(text.find('\n', begin), text.size());
  const std::size_t end = std::clamp(range.end, begin, line_end);

  Diagnostic diagnostic{fault};
  diagnostic.source_name = source.name;
  diagnostic.line =
      source.first_line +
      static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(line_begin), '\n'));
  diagnostic.column = count_characters(text.substr(line_begin, begin - line_begin)) + 1;
  diagnostic.line_text = std::string(text.substr(line_begin, line_end - line_begin));
  if (diagnostic.line_text.ends_with('\r')) diagnostic.line_text.pop_back();
  diagnostic.length = std::max(1, count_characters(text.substr(begin, end - begin)));
  diagnostic.range = range;
  return diagnostic;
}

std::string to_string(const Diagnostic& diagnostic, const Palette& palette) {
  std::string out = render(diagnostic, "error", palette.error, palette);
  for (const Diagnostic& note : diagnostic.notes) out += render(note, "note", palette.note, palette);
  return out;
}

InputError::InputError(Diagnostic diagnostic)
    : std::runtime_error(diagnostic.message), diagnostic_(std::move(diagnostic)) {}

InputError::InputError(const Fault& fault) : InputError(Diagnostic{fault}) {}

ProgramFailure::ProgramFailure(Diagnostic diagnostic)
    : RuntimeError(without_last_end_of_line(to_string(diagnostic))), diagnostic_(std::move(diagnostic)) {}

}  // namespace retile
