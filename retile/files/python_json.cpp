#include "retile/files/python_json.h"

#include <cstddef>
#include <string_view>

namespace retile::files {
namespace {

// What stands for a word begins with a character that no text uses.
struct Word {
  std::string_view shown;
  std::string_view hidden;
};
constexpr Word words[] = {{"-Infinity", "\"\x7F------\""}, {"Infinity", "\"\x7F+++++\""}, {"NaN", "\"\x7F\""}};

}  // namespace

std::string hide_words(std::string text) {
  bool is_inside = false;  // of a string
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_inside && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      is_inside = !is_inside;
    } else if (!is_inside) {
      for (const Word& word : words) {
        if (std::string_view(text).substr(i, word.shown.size()) != word.shown) continue;
        text.replace(i, word.shown.size(), word.hidden);
        i += word.hidden.size() - 1;
        break;
      }
    }
  }
  return text;
}

std::string show_words(std::string text) {
  for (const Word& word : words) {
    for (std::size_t at = text.find(word.hidden); at != std::string::npos; at = text.find(word.hidden, at)) {
      text.replace(at, word.hidden.size(), word.shown);
    }
  }
  return text;
}

}  // namespace retile::files
