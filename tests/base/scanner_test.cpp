#include "retile/base/scanner.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <string>

#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

// Runs the action on a scanner of the text and gives what the user would read.
std::string fault_in(const std::string& text, const std::function<void(Scanner&)>& action) {
  const SourceText source{"text", text};
  Scanner scanner(source);
  return test::diagnostic_of([&] { action(scanner); });
}

std::string name_fault(const std::string& text) {
  return fault_in(text, [](Scanner& scanner) { scanner.name("an axis name"); });
}

std::string size_fault(const std::string& text) {
  return fault_in(text, [](Scanner& scanner) { scanner.size("a size"); });
}

class Words : public testing::Test {
 protected:
  Scanner& scan(std::string text) {
    source_.text = std::move(text);
    return scanner_;
  }

 private:
  SourceText source_{"text", ""};
  Scanner scanner_{source_};
};

using Tokens = Words;
using Space = Words;

TEST_F(Tokens, symbols_are_taken_only_where_they_stand) {
  Scanner& scanner = scan("->[x");
  EXPECT_FALSE(scanner.accept("["));
  EXPECT_TRUE(scanner.looking_at("-"));
  EXPECT_TRUE(scanner.looking_at("->"));
  EXPECT_TRUE(scanner.accept("->"));
  EXPECT_EQ(scanner.last().begin, 0U);
  EXPECT_EQ(scanner.last().end, 2U);
  EXPECT_NO_THROW(scanner.expect("[", "at the start of a type"));
  EXPECT_FALSE(scanner.accept("xy"));
  EXPECT_FALSE(scanner.at_end());
}

TEST_F(Tokens, bare_names_are_letters_digits_and_underscores) {
  Scanner& scanner = scan("_a1B_ x2:3");
  EXPECT_EQ(scanner.name("a name"), "_a1B_");
  EXPECT_EQ(scanner.last().begin, 0U);
  EXPECT_EQ(scanner.last().end, 5U);
  EXPECT_EQ(scanner.name("a name"), "x2");
  EXPECT_TRUE(scanner.looking_at(":"));
}

TEST_F(Tokens, quoted_names_hold_any_text) {
  Scanner& scanner = scan(R"("x" "größe, {2}" "a\"b\\c" "")");
  EXPECT_EQ(scanner.name("a name"), "x");
  EXPECT_EQ(scanner.name("a name"), "größe, {2}");
  EXPECT_EQ(scanner.name("a name"), "a\"b\\c");
  EXPECT_EQ(scanner.last().begin, 19U);
  EXPECT_EQ(scanner.last().end, 28U);
  EXPECT_EQ(scanner.name("a name"), "");
  EXPECT_TRUE(scanner.at_end());
}

TEST_F(Tokens, sizes_go_from_1_to_the_largest) {
  Scanner& scanner = scan("1 007 9223372036854775807");
  EXPECT_EQ(scanner.size("a size"), 1);
  EXPECT_EQ(scanner.size("a size"), 7);
  EXPECT_EQ(scanner.size("a size"), 9223372036854775807);
  EXPECT_EQ(scanner.last().begin, 6U);
  EXPECT_EQ(scanner.last().end, 25U);
}

TEST_F(Tokens, indices_go_from_0) {
  Scanner& scanner = scan("0 12");
  EXPECT_EQ(scanner.index("a dimension"), 0);
  EXPECT_EQ(scanner.index("a dimension"), 12);
}

TEST_F(Tokens, a_size_ends_before_a_letter) {
  Scanner& scanner = scan("12abc");
  EXPECT_EQ(scanner.size("a size"), 12);
  EXPECT_EQ(scanner.name("a name"), "abc");
}

TEST_F(Tokens, looking_ahead_takes_nothing) {
  Scanner& scanner = scan("  mesh2 8");
  EXPECT_TRUE(scanner.looking_at_name());
  EXPECT_EQ(scanner.peek_word(), "mesh2");
  EXPECT_EQ(scanner.next_position(), 2U);
  EXPECT_EQ(scanner.name("a name"), "mesh2");
  EXPECT_FALSE(scanner.looking_at_name());
  EXPECT_EQ(scanner.peek_word(), "8");
}

TEST_F(Tokens, quotes_begin_a_name_but_no_word) {
  Scanner& scanner = scan("\"x\"");
  EXPECT_TRUE(scanner.looking_at_name());
  EXPECT_EQ(scanner.peek_word(), "");
}

TEST_F(Tokens, at_the_end_there_is_nothing_ahead) {
  Scanner& scanner = scan(" ");
  EXPECT_TRUE(scanner.at_end());
  EXPECT_EQ(scanner.next_position(), 1U);
  EXPECT_EQ(scanner.peek_word(), "");
  EXPECT_FALSE(scanner.looking_at_name());
  EXPECT_FALSE(scanner.accept("["));
  EXPECT_NO_THROW(scanner.expect_end("the type"));
}

TEST_F(Space, and_comments_stand_between_tokens) {
  Scanner& scanner = scan("\t a // one\r\n/* two\n * lines */b/**/c//");
  EXPECT_EQ(scanner.name("a name"), "a");
  EXPECT_EQ(scanner.name("a name"), "b");
  EXPECT_EQ(scanner.name("a name"), "c");
  EXPECT_TRUE(scanner.at_end());
}

TEST_F(Space, a_comment_runs_to_the_end_of_its_line) {
  Scanner& scanner = scan("// a /* b\nc");
  EXPECT_EQ(scanner.name("a name"), "c");
}

TEST_F(Space, comments_do_not_nest) {
  Scanner& scanner = scan("/* a /* b */ c");
  EXPECT_EQ(scanner.name("a name"), "c");
}

TEST_F(Space, a_slash_alone_is_no_comment) { EXPECT_TRUE(scan("/ /").accept("/")); }

TEST_F(Space, quotes_keep_what_looks_like_a_comment) {
  EXPECT_EQ(scan(R"("a//b /* c */")").name("a name"), "a//b /* c */");
}

TEST(ScannerFault, comment_that_is_never_closed) {
  EXPECT_EQ(name_fault("a = /* no end"), "no error");
  EXPECT_EQ(fault_in("a /* no end /",
                     [](Scanner& scanner) {
                       scanner.name("a name");
                       scanner.at_end();
                     }),
            "text:1:3: error: this comment is never closed\n"
            "    1 | a /* no end /\n"
            "      |   ^~\n"
            "hint: close it with */\n");
  EXPECT_EQ(fault_in("/*/", [](Scanner& scanner) { scanner.at_end(); }),
            "text:1:1: error: this comment is never closed\n"
            "    1 | /*/\n"
            "      | ^~\n"
            "hint: close it with */\n");
}

TEST(ScannerFault, symbol_that_is_missing) {
  const auto expect_comma = [](Scanner& scanner) { scanner.expect(",", "between dimensions"); };
  EXPECT_EQ(fault_in("  word1 ]", expect_comma),
            "text:1:3: error: expected ',' between dimensions, found 'word1'\n"
            "    1 |   word1 ]\n"
            "      |   ^~~~~\n");
  EXPECT_EQ(fault_in("]]", expect_comma),
            "text:1:1: error: expected ',' between dimensions, found ']'\n"
            "    1 | ]]\n"
            "      | ^\n");
  EXPECT_EQ(fault_in("→ x", expect_comma),
            "text:1:1: error: expected ',' between dimensions, found '→'\n"
            "    1 | → x\n"
            "      | ^\n");
}

TEST(ScannerFault, symbol_that_is_missing_at_the_end) {
  EXPECT_EQ(fault_in("x ",
                     [](Scanner& scanner) {
                       scanner.name("a name");
                       scanner.expect(",", "between dimensions");
                     }),
            "text:1:3: error: expected ',' between dimensions, found the end\n"
            "    1 | x \n"
            "      |   ^\n");
}

TEST(ScannerFault, found_what_cannot_be_printed) {
  const auto expect_comma = [](Scanner& scanner) { scanner.expect(",", "between dimensions"); };
  EXPECT_EQ(fault_in("\xFFx", expect_comma),
            "text:1:1: error: expected ',' between dimensions, found a byte that is not UTF-8\n"
            "    1 | ?x\n"
            "      | ^\n");
  EXPECT_EQ(fault_in("\x1Bx", expect_comma),
            "text:1:1: error: expected ',' between dimensions, found a control character\n"
            "    1 |  x\n"
            "      | ^\n");
  EXPECT_EQ(fault_in(std::string("\0x", 2), expect_comma),
            "text:1:1: error: expected ',' between dimensions, found a control character\n"
            "    1 |  x\n"
            "      | ^\n");
}

TEST(ScannerFault, more_after_the_end) {
  EXPECT_EQ(fault_in(" \n 12ab]", [](Scanner& scanner) { scanner.expect_end("the type"); }),
            "text:2:2: error: expected the end of the type, found '12ab'\n"
            "    2 |  12ab]\n"
            "      |  ^~~~\n");
}

TEST(ScannerFault, name_that_is_none) {
  EXPECT_EQ(name_fault("2x"),
            "text:1:1: error: expected an axis name, found '2x'\n"
            "    1 | 2x\n"
            "      | ^~\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
  EXPECT_EQ(name_fault("α"),
            "text:1:1: error: expected an axis name, found 'α'\n"
            "    1 | α\n"
            "      | ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
  EXPECT_EQ(name_fault(""),
            "text:1:1: error: expected an axis name, found the end\n"
            "    1 | \n"
            "      | ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
}

TEST(ScannerFault, quotes_that_are_never_closed) {
  EXPECT_EQ(name_fault("\"größe"),
            "text:1:1: error: the quotes around an axis name are never closed\n"
            "    1 | \"größe\n"
            "      | ^~~~~~\n");
  EXPECT_EQ(name_fault("\"x\ny\""),
            "text:1:1: error: the quotes around an axis name are never closed\n"
            "    1 | \"x\n"
            "      | ^~\n");
  EXPECT_EQ(name_fault("\""),
            "text:1:1: error: the quotes around an axis name are never closed\n"
            "    1 | \"\n"
            "      | ^\n");
  EXPECT_EQ(name_fault("\"x\\\""),
            "text:1:1: error: the quotes around an axis name are never closed\n"
            "    1 | \"x\\\"\n"
            "      | ^~~~\n");
}

TEST(ScannerFault, escape_that_is_unknown) {
  EXPECT_EQ(name_fault(R"("a\nb")"),
            "text:1:3: error: unknown escape in a quoted name\n"
            "    1 | \"a\\nb\"\n"
            "      |   ^~\n"
            "hint: only \\\" and \\\\ are escapes\n");
  EXPECT_EQ(name_fault("\"a\\"),
            "text:1:3: error: unknown escape in a quoted name\n"
            "    1 | \"a\\\n"
            "      |   ^\n"
            "hint: only \\\" and \\\\ are escapes\n");
}

TEST(ScannerFault, size_that_is_none) {
  EXPECT_EQ(size_fault("x"),
            "text:1:1: error: expected a size, found 'x'\n"
            "    1 | x\n"
            "      | ^\n");
  EXPECT_EQ(size_fault("- 4"),
            "text:1:1: error: expected a size, found '-'\n"
            "    1 | - 4\n"
            "      | ^\n");
  EXPECT_EQ(size_fault(""),
            "text:1:1: error: expected a size, found the end\n"
            "    1 | \n"
            "      | ^\n");
}

TEST(ScannerFault, size_that_is_0) {
  EXPECT_EQ(size_fault(" 000,"),
            "text:1:2: error: a size is 0\n"
            "    1 |  000,\n"
            "      |  ^~~\n"
            "hint: sizes start at 1\n");
}

TEST(ScannerFault, number_that_is_negative) {
  EXPECT_EQ(size_fault(" -42x"),
            "text:1:2: error: a size is negative\n"
            "    1 |  -42x\n"
            "      |  ^~~\n");
  EXPECT_EQ(fault_in("-1", [](Scanner& scanner) { scanner.index("a dimension"); }),
            "text:1:1: error: a dimension is negative\n"
            "    1 | -1\n"
            "      | ^~\n");
}

TEST(ScannerFault, number_beyond_63_bits) {
  EXPECT_EQ(size_fault("9223372036854775808"),
            "text:1:1: error: a size does not fit in 63 bits\n"
            "    1 | 9223372036854775808\n"
            "      | ^~~~~~~~~~~~~~~~~~~\n"
            "hint: the largest size is 9223372036854775807\n");
  EXPECT_EQ(size_fault("18446744073709551617 "),  // 1 in wrapping arithmetic
            "text:1:1: error: a size does not fit in 63 bits\n"
            "    1 | 18446744073709551617 \n"
            "      | ^~~~~~~~~~~~~~~~~~~~\n"
            "hint: the largest size is 9223372036854775807\n");
}

TEST_F(Tokens, words_are_taken_whole) {
  Scanner& scanner = scan("ascent as");
  EXPECT_TRUE(scanner.looking_at("as"));
  EXPECT_FALSE(scanner.accept_word("as"));
  scanner.name("a name");
  EXPECT_NO_THROW(scanner.expect_word("as", "before a type"));
  EXPECT_TRUE(scanner.at_end());
}

TEST(ScannerFault, word_that_is_another) {
  EXPECT_EQ(fault_in("ascent", [](Scanner& scanner) { scanner.expect_word("as", "before a type"); }),
            "text:1:1: error: expected 'as' before a type, found 'ascent'\n"
            "    1 | ascent\n"
            "      | ^~~~~~\n");
}

TEST_F(Tokens, decimals_are_kept_as_written) {
  Scanner& scanner = scan("12 1.50 2e-3 7E+10 4.5e6,");
  for (const char* number : {"12", "1.50", "2e-3", "7E+10", "4.5e6"}) {
    EXPECT_TRUE(scanner.looking_at_digit());
    EXPECT_EQ(scanner.decimal("a number"), number);
  }
  EXPECT_FALSE(scanner.looking_at_digit());
  EXPECT_EQ(scanner.describe_ahead(), "','");
}

TEST(ScannerFault, decimal_that_is_none) {
  const auto fault = [](const std::string& text) {
    return fault_in(text, [](Scanner& scanner) { scanner.decimal("a number"); });
  };
  EXPECT_EQ(fault(" x"),
            "text:1:2: error: expected a number, found 'x'\n"
            "    1 |  x\n"
            "      |  ^\n");
  for (const std::string text : {"1.", "1e", "1e+", "1.5e", "1x", "1.5x", "1e5_"}) {
    EXPECT_EQ(fault(text), "text:1:1: error: a number is cut short or runs into a word\n    1 | " + text +
                               "\n      | ^" + std::string(text.size() - 1, '~') + "\nhint: as in 12, 1.5 or 2e-3\n");
  }
}

TEST_F(Tokens, reading_goes_on_where_it_is_told) {
  Scanner& scanner = scan("one two");
  scanner.go_to(4);
  EXPECT_EQ(scanner.name("a name"), "two");
}

TEST(ScannerFault, of_the_caller) {
  const auto fail_here = [](Scanner& scanner) {
    scanner.name("a name");
    scanner.fail_here("no such thing", "try another");
  };
  EXPECT_EQ(fault_in("a  bc", fail_here),
            "text:1:4: error: no such thing\n"
            "    1 | a  bc\n"
            "      |    ^~\n"
            "hint: try another\n");
  EXPECT_EQ(fault_in("a  bc",
                     [](Scanner& scanner) {
                       scanner.fail({0, 5}, "no such thing");
                     }),
            "text:1:1: error: no such thing\n"
            "    1 | a  bc\n"
            "      | ^~~~~\n");
}

TEST(Names, bare_ones_need_no_quotes) {
  for (const char* name : {"x", "_", "a1", "Rows_2"}) {
    EXPECT_TRUE(is_bare_name(name)) << name;
    EXPECT_EQ(quote_name(name), name);
  }
}

TEST(Names, others_do) {
  for (const char* name : {"", "1a", "a b", "a-b", "größe", "a:b", "x\""}) EXPECT_FALSE(is_bare_name(name)) << name;
  EXPECT_EQ(quote_name(""), "\"\"");
  EXPECT_EQ(quote_name("a b"), "\"a b\"");
  EXPECT_EQ(quote_name(R"(a"b\c)"), R"("a\"b\\c")");
}

RC_GTEST_PROP(Names, are_read_back_as_quoted, ()) {
  std::string name = *rc::gen::string<std::string>();
  std::erase(name, '\n');  // the one character that ends a quoted name
  const SourceText source{"text", quote_name(name)};
  Scanner scanner(source);
  RC_ASSERT(scanner.name("a name") == name);
  RC_ASSERT(scanner.at_end());
}

RC_GTEST_PROP(Names, any_text_is_read_or_is_at_fault_inside_it, (const std::string& text)) {
  const SourceText source{"text", text};
  Scanner scanner(source);
  try {
    while (!scanner.at_end()) {
      if (scanner.looking_at_name()) {
        scanner.name("a name");
      } else {
        scanner.index("a number");
      }
      RC_ASSERT(scanner.last().begin < scanner.last().end && scanner.last().end <= text.size());
    }
  } catch (const InputError& error) {
    RC_ASSERT(error.diagnostic().range.begin <= text.size());
  }
}

}  // namespace
}  // namespace retile
