#include "retile/base/utf8.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <numeric>

namespace retile {
namespace {

std::string bytes(std::initializer_list<unsigned> values) {
  std::string text;
  for (const unsigned value : values) text += static_cast<char>(value);
  return text;
}

// Without regard to which code points are characters.
std::string encoded(std::uint32_t code) {
  if (code < 0x80) return bytes({code});
  if (code < 0x800) return bytes({0xC0 | code >> 6, 0x80 | (code & 0x3F)});
  if (code < 0x10000) return bytes({0xE0 | code >> 12, 0x80 | (code >> 6 & 0x3F), 0x80 | (code & 0x3F)});
  return bytes({0xF0 | code >> 18, 0x80 | (code >> 12 & 0x3F), 0x80 | (code >> 6 & 0x3F), 0x80 | (code & 0x3F)});
}

TEST(Utf8, characters_of_one_to_four_bytes) {
  EXPECT_EQ(split_characters("aé€😀"), (std::vector<std::string>{"a", "é", "€", "😀"}));
  EXPECT_EQ(count_characters("aé€😀"), 4);
  EXPECT_TRUE(is_valid_utf8("aé€😀"));
}

TEST(Utf8, empty_text) {
  EXPECT_TRUE(split_characters("").empty());
  EXPECT_EQ(count_characters(""), 0);
  EXPECT_TRUE(is_valid_utf8(""));
}

TEST(Utf8, every_byte_that_is_not_valid_is_one_question_mark) {
  EXPECT_EQ(split_characters("a\xFFz"), (std::vector<std::string>{"a", "?", "z"}));
  EXPECT_EQ(split_characters("\xE2\x82"), (std::vector<std::string>{"?", "?"}));  // € cut short
  EXPECT_EQ(split_characters("\xE2\x82z"), (std::vector<std::string>{"?", "?", "z"}));
  EXPECT_EQ(count_characters("\xF0\x9F\x98"), 3);
  EXPECT_FALSE(is_valid_utf8("\xE2\x82"));
}

TEST(Utf8, a_zero_byte_is_a_character) {
  EXPECT_EQ(count_characters(std::string_view("a\0b", 3)), 3);
  EXPECT_TRUE(is_valid_utf8(std::string_view("\0", 1)));
}

TEST(Printable, is_one_line_with_as_many_characters) {
  EXPECT_EQ(printable("a\tb\r\n\x1B[31mé\x7F"), "a b   [31mé ");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a b");
  EXPECT_EQ(printable("\xFF€"), "?€");
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("a\u202Eb\u200Bc\u0085"), "a b c ");
}

TEST(Printable, is_what_needs_no_change) {
  for (const char* text : {"", "a b", "größe 😀", "\u00AC", "\u00AE", "\u2027", "\u202F"})
    EXPECT_TRUE(is_printable(text));
  for (const char* text : {"\n", "\x7F", "\u0080", "\u009F", "\u00AD", "a\u202E", "\u2028", "\U000E0041", "\xFF"}) {
    EXPECT_FALSE(is_printable(text)) << text;
  }
}

TEST(Utf8, code_points_are_characters_unless_surrogates) {
  for (std::uint32_t code = 0; code <= 0x10FFFF; ++code) {
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    const std::string text = encoded(code);
    ASSERT_EQ(is_valid_utf8(text), !surrogate) << std::hex << code;
    ASSERT_EQ(count_characters(text), surrogate ? 3 : 1) << std::hex << code;
  }
}

TEST(Utf8, nothing_lies_beyond_the_last_code_point) {
  EXPECT_TRUE(is_valid_utf8(encoded(0x10FFFF)));
  EXPECT_FALSE(is_valid_utf8(encoded(0x110000)));
  EXPECT_FALSE(is_valid_utf8(bytes({0xF5, 0x80, 0x80, 0x80})));
  EXPECT_FALSE(is_valid_utf8(bytes({0xF8, 0x88, 0x80, 0x80, 0x80})));
}

TEST(Utf8, longer_encodings_than_needed_are_not_valid) {
  EXPECT_FALSE(is_valid_utf8(bytes({0xC0, 0x80})));
  EXPECT_FALSE(is_valid_utf8(bytes({0xC1, 0xBF})));
  EXPECT_FALSE(is_valid_utf8(bytes({0xE0, 0x9F, 0xBF})));
  EXPECT_FALSE(is_valid_utf8(bytes({0xF0, 0x8F, 0xBF, 0xBF})));
}

TEST(Utf8, printable_text_keeps_its_width_and_cannot_steer_a_terminal) {
  EXPECT_EQ(printable("a\tb\x1b[31m\x7f\n\xC3\xA9\xFF"), "a b [31m  \xC3\xA9?");
}

// Counting tells that nothing else is valid: n code points have encodings of each length.
TEST(Utf8, as_many_texts_of_three_bytes_are_valid_as_the_code_points_allow) {
  std::string text(3, '\0');
  int valid = 0;
  for (std::uint32_t word = 0; word < 1U << 24; ++word) {
    for (unsigned i = 0; i < 3; ++i) text[i] = static_cast<char>(word >> (8 * i) & 0xFF);
    valid += is_valid_utf8(text) ? 1 : 0;
  }
  constexpr int one = 0x80;
  constexpr int two = 0x800 - 0x80;
  constexpr int three = 0x10000 - 0x800 - 0x800;  // less the surrogates
  EXPECT_EQ(valid, one * one * one + 2 * one * two + three);
}

RC_GTEST_PROP(Utf8, the_three_functions_agree_on_any_bytes, (const std::string& text)) {
  const std::vector<std::string> characters = split_characters(text);
  const std::string joined = std::accumulate(characters.begin(), characters.end(), std::string());
  RC_ASSERT(static_cast<int>(characters.size()) == count_characters(text));
  RC_ASSERT(is_valid_utf8(joined));
  if (is_valid_utf8(text)) RC_ASSERT(joined == text);
}

}  // namespace
}  // namespace retile
