#include "retile/base/utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace retile {
namespace {

struct Character {
  std::size_t length = 0;  // bytes; 0: what starts the text is no valid character
  std::uint32_t code = 0;
};

// The character that starts the text, which is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return {};
  std::uint32_t code = byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (overlong || surrogate || code > 0x10FFFF) return {};
  return {length, code};
}

std::size_t character_length(std::string_view text) { return first_character(text).length; }

struct CodeRange {
  std::uint32_t first;
  std::uint32_t last;
};

// Unicode's categories Cc (control), Cf (format), Zl and Zp (line and paragraph separators), in order.
constexpr CodeRange unprintable_characters[] = {
    {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
    {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},     {0x180E, 0x180E},
    {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x2064},   {0x2066, 0x206F},   {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0001, 0xE0001}, {0xE0020, 0xE007F}};

bool is_printable_code(std::uint32_t code) {
  const auto* range = std::lower_bound(std::begin(unprintable_characters), std::end(unprintable_characters), code,
                                       [](const CodeRange& some, std::uint32_t value) { return some.last < value; });
  return range == std::end(unprintable_characters) || code < range->first;
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
    out += is_printable_code(first_character(character).code) ? character : " ";
  }
  return out;
}

bool is_printable(std::string_view text) { return is_valid_utf8(text) && printable(text) == text; }

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace retile
