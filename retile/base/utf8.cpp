#include "retile/base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace retile {
namespace {

// Length in bytes of the valid character that starts `text`, or 0 if there is none.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return 0;
  std::uint32_t code = byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return overlong || surrogate || code > 0x10FFFF ? 0 : length;
}

}  // namespace

std::vector<std::string> split_characters(std::string_view text) {
  std::vector<std::string> characters;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    characters.emplace_back(length == 0 ? std::string_view("?") : text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return characters;
}

int count_characters(std::string_view text) {
  int count = 0;
  for (; !text.empty(); ++count) {
    const std::size_t length = character_length(text);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return count;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const std::string& character : split_characters(text)) {
    const bool control = static_cast<unsigned char>(character[0]) < 0x20 || character[0] == 0x7F;
    out += control ? " " : character;
  }
  return out;
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace retile
