#include "retile/base/diagnostic.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

namespace retile {
namespace {

std::string shown(const std::string& text, SourceRange range, int first_line = 1) {
  return to_string(diagnose(SourceText{"file", text, first_line}, range, "what is wrong"));
}

// The columns of the caret and of its last tilde, from 0, after the "|" and the space.
struct Underline {
  std::size_t begin;
  std::size_t end;
};

Underline underline_of(const std::string& rendered) {
  const std::size_t last_line = rendered.rfind('\n', rendered.size() - 2) + 1;
  const std::string line = rendered.substr(last_line);
  const std::size_t margin = line.find("| ") + 2;
  return {line.find('^') - margin, line.size() - 2 - margin};
}

TEST(Diagnostic, shows_name_line_column_message_and_caret) {
  EXPECT_EQ(shown("one two", {4, 7}),
            "file:1:5: error: what is wrong\n"
            "    1 | one two\n"
            "      |     ^~~\n");
}

TEST(Diagnostic, ends_with_the_hint) {
  EXPECT_EQ(to_string(diagnose(SourceText{"argument SRC", "one"}, {0, 3}, "what is wrong", "what to do")),
            "argument SRC:1:1: error: what is wrong\n"
            "    1 | one\n"
            "      | ^~~\n"
            "hint: what to do\n");
}

TEST(Diagnostic, notes_follow_with_places_of_their_own) {
  const SourceText source{"file", "one\ntwo"};
  Diagnostic diagnostic = diagnose(source, {4, 7}, "what is wrong", "what to do");
  diagnostic.notes.push_back(diagnose(source, {0, 3}, "what matters too"));
  diagnostic.notes.push_back(diagnose(source, {1, 2}, "and this"));
  EXPECT_EQ(to_string(diagnostic),
            "file:2:1: error: what is wrong\n"
            "    2 | two\n"
            "      | ^~~\n"
            "hint: what to do\n"
            "file:1:1: note: what matters too\n"
            "    1 | one\n"
            "      | ^~~\n"
            "file:1:2: note: and this\n"
            "    1 | one\n"
            "      |  ^\n");
}

TEST(Diagnostic, fields_tell_the_place) {
  const Diagnostic diagnostic = diagnose(SourceText{"file", "a\nbé two\n", 7}, {6, 9}, "message", "hint");
  EXPECT_EQ(diagnostic.message, "message");
  EXPECT_EQ(diagnostic.hint, "hint");
  EXPECT_EQ(diagnostic.source_name, "file");
  EXPECT_EQ(diagnostic.line, 8);
  EXPECT_EQ(diagnostic.column, 4);
  EXPECT_EQ(diagnostic.line_text, "bé two");
  EXPECT_EQ(diagnostic.length, 3);
  EXPECT_EQ(diagnostic.range.begin, 6U);
  EXPECT_EQ(diagnostic.range.end, 9U);
}

TEST(Diagnostic, an_empty_range_still_has_a_caret) {
  EXPECT_EQ(shown("one two", {4, 4}),
            "file:1:5: error: what is wrong\n"
            "    1 | one two\n"
            "      |     ^\n");
}

TEST(Diagnostic, at_the_end_of_the_text) {
  EXPECT_EQ(shown("[8,", {3, 3}),
            "file:1:4: error: what is wrong\n"
            "    1 | [8,\n"
            "      |    ^\n");
}

TEST(Diagnostic, beyond_the_end_of_the_text) {
  EXPECT_EQ(shown("[8,", {40, 50}),
            "file:1:4: error: what is wrong\n"
            "    1 | [8,\n"
            "      |    ^\n");
}

TEST(Diagnostic, in_an_empty_text) {
  EXPECT_EQ(shown("", {0, 1}),
            "file:1:1: error: what is wrong\n"
            "    1 | \n"
            "      | ^\n");
}

TEST(Diagnostic, after_the_last_line) {
  EXPECT_EQ(shown("one\n", {4, 4}),
            "file:2:1: error: what is wrong\n"
            "    2 | \n"
            "      | ^\n");
}

TEST(Diagnostic, at_the_end_of_a_line_in_the_middle) {
  EXPECT_EQ(shown("one\ntwo\nthree", {7, 8}),
            "file:2:4: error: what is wrong\n"
            "    2 | two\n"
            "      |    ^\n");
}

TEST(Diagnostic, in_the_middle_line_of_several) {
  EXPECT_EQ(shown("one\ntwo three\nfour", {8, 13}),
            "file:2:5: error: what is wrong\n"
            "    2 | two three\n"
            "      |     ^~~~~\n");
}

TEST(Diagnostic, over_several_lines_underlines_the_first) {
  EXPECT_EQ(shown("one two\nthree\nfour", {4, 18}),
            "file:1:5: error: what is wrong\n"
            "    1 | one two\n"
            "      |     ^~~\n");
  EXPECT_EQ(diagnose(SourceText{"file", "one two\nthree\nfour"}, {4, 18}, "what is wrong").length, 3);
}

TEST(Diagnostic, counts_lines_from_where_the_text_starts) {
  EXPECT_EQ(shown("one\ntwo", {4, 7}, 41),
            "file:42:1: error: what is wrong\n"
            "   42 | two\n"
            "      | ^~~\n");
}

TEST(Diagnostic, with_a_line_number_wider_than_its_column) {
  EXPECT_EQ(shown("one two", {4, 7}, 1234567),
            "file:1234567:5: error: what is wrong\n"
            "1234567 | one two\n"
            "        |     ^~~\n");
}

TEST(Diagnostic, tabs_take_one_column) {
  EXPECT_EQ(shown("\tone\ttwo", {5, 8}),
            "file:1:6: error: what is wrong\n"
            "    1 |  one two\n"
            "      |      ^~~\n");
}

TEST(Diagnostic, the_carriage_return_belongs_to_the_end_of_the_line) {
  EXPECT_EQ(shown("one\r\ntwo\r\n", {3, 5}),
            "file:1:4: error: what is wrong\n"
            "    1 | one\n"
            "      |    ^\n");
  EXPECT_EQ(shown("one\r\ntwo\r\n", {5, 8}),
            "file:2:1: error: what is wrong\n"
            "    2 | two\n"
            "      | ^~~\n");
}

TEST(Diagnostic, counts_characters_not_bytes) {
  EXPECT_EQ(shown("α, β → 😀!", {11, 15}),
            "file:1:8: error: what is wrong\n"
            "    1 | α, β → 😀!\n"
            "      |        ^\n");
  EXPECT_EQ(shown("\"größe\"}", {0, 9}),
            "file:1:1: error: what is wrong\n"
            "    1 | \"größe\"}\n"
            "      | ^~~~~~~\n");
}

TEST(Diagnostic, shows_bytes_that_are_not_valid_as_question_marks) {
  EXPECT_EQ(shown("a\xFF\xFE b", {1, 3}),
            "file:1:2: error: what is wrong\n"
            "    1 | a?? b\n"
            "      |  ^~\n");
}

TEST(Diagnostic, cannot_steer_the_terminal) {
  const SourceText source{"file", "x\x1B[31m\x7F"};
  EXPECT_EQ(to_string(diagnose(source, {1, 2}, "unknown axis \"\x1B[31m\n\"", "the mesh has \x07")),
            "file:1:2: error: unknown axis \" [31m \"\n"
            "    1 | x [31m \n"
            "      |  ^\n"
            "hint: the mesh has  \n");
}

TEST(Diagnostic, lines_of_96_characters_are_shown_whole) {
  const std::string line(96, 'x');
  EXPECT_EQ(shown(line, {95, 96}),
            "file:1:96: error: what is wrong\n    1 | " + line + "\n      | " + std::string(95, ' ') + "^\n");
}

TEST(Diagnostic, the_start_of_a_long_line) {
  const std::string line = std::string(40, 'a') + "here" + std::string(400, 'z');
  EXPECT_EQ(shown(line, {40, 44}), "file:1:41: error: what is wrong\n    1 | " + line.substr(0, 96) + "...\n      | " +
                                       std::string(40, ' ') + "^~~~\n");
}

TEST(Diagnostic, the_middle_of_a_long_line) {
  const std::string line = std::string(400, 'a') + "here" + std::string(400, 'z');
  EXPECT_EQ(shown(line, {400, 404}), "file:1:401: error: what is wrong\n    1 | ..." + line.substr(352, 96) +
                                         "...\n      | " + std::string(51, ' ') + "^~~~\n");
}

TEST(Diagnostic, the_end_of_a_long_line) {
  const std::string line = std::string(400, 'a') + "here";
  EXPECT_EQ(shown(line, {400, 404}), "file:1:401: error: what is wrong\n    1 | ..." + line.substr(308) + "\n      | " +
                                         std::string(95, ' ') + "^~~~\n");
  EXPECT_EQ(shown(line, {404, 404}), "file:1:405: error: what is wrong\n    1 | ..." + line.substr(308) + "\n      | " +
                                         std::string(99, ' ') + "^\n");
}

TEST(Diagnostic, a_long_range_is_underlined_as_far_as_its_line_is_shown) {
  const std::string line(400, 'a');
  EXPECT_EQ(shown(line, {0, 400}), "file:1:1: error: what is wrong\n    1 | " + line.substr(0, 96) + "...\n      | ^" +
                                       std::string(98, '~') + "\n");
}

TEST(Diagnostic, a_long_line_of_wide_characters_is_cut_between_them) {
  std::string line;
  for (int i = 0; i < 200; ++i) line += "é";
  EXPECT_EQ(shown(line, {200, 202}), "file:1:101: error: what is wrong\n    1 | ..." + line.substr(104, 192) +
                                         "...\n      | " + std::string(51, ' ') + "^\n");
}

TEST(Diagnostic, without_a_place_is_message_and_hint) {
  EXPECT_EQ(to_string(InputError("what is wrong", "what to do").diagnostic()),
            "error: what is wrong\n"
            "hint: what to do\n");
  EXPECT_EQ(to_string(InputError("what is wrong", {}).diagnostic()), "error: what is wrong\n");
}

TEST(InputError, carries_its_diagnostic) {
  const InputError error(diagnose(SourceText{"file", "one"}, {0, 1}, "what is wrong"));
  EXPECT_STREQ(error.what(), "what is wrong");
  EXPECT_EQ(error.diagnostic().line, 1);
}

RC_GTEST_PROP(Diagnostic, underlines_the_characters_of_the_range, ()) {
  const std::string before(static_cast<std::size_t>(*rc::gen::inRange(0, 200)), 'a');
  const std::string marked(static_cast<std::size_t>(*rc::gen::inRange(1, 40)), 'X');
  const std::string after(static_cast<std::size_t>(*rc::gen::inRange(0, 200)), 'z');
  const std::string rendered = shown(before + marked + after, {before.size(), before.size() + marked.size()});
  const std::size_t line = rendered.find("| ") + 2;
  const Underline underline = underline_of(rendered);
  RC_ASSERT(rendered.substr(line + underline.begin, underline.end - underline.begin + 1) == marked);
}

RC_GTEST_PROP(Diagnostic, has_three_lines_for_any_text_and_range,
              (const std::string& text, std::uint16_t begin, std::uint16_t end)) {
  const std::string rendered = shown(text, {begin % (text.size() + 3), end % (text.size() + 3)});
  RC_ASSERT(std::count(rendered.begin(), rendered.end(), '\n') == 3);
  RC_ASSERT(std::count(rendered.begin(), rendered.end(), '^') - std::count(text.begin(), text.end(), '^') <= 1);
}

}  // namespace
}  // namespace retile
