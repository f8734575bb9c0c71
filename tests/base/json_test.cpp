#include "retile/base/json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

std::string fault_in(const std::string& text) {
  return test::diagnostic_of([&] { parse_json(SourceText{"file.json", text}); });
}

std::string reader_fault(const std::string& text, const std::function<void(const JsonReader&)>& action) {
  const SourceText source{"file.json", text};
  const JsonValue value = parse_json(source);
  return test::diagnostic_of([&] { action(JsonReader(source, value, "the value")); });
}

std::string text_at(const std::string& text, SourceRange range) {
  return text.substr(range.begin, range.end - range.begin);
}

// Every value's text, and every key's, in the order of the tree.
void collect_texts(const std::string& text, const JsonValue& value, std::vector<std::string>& texts) {
  texts.push_back(text_at(text, value.range()));
  if (const JsonArray* array = value.as<JsonArray>()) {
    for (const JsonValue& element : *array) collect_texts(text, element, texts);
  }
  if (const JsonObject* object = value.as<JsonObject>()) {
    for (const JsonMember& member : *object) {
      texts.push_back(text_at(text, member.key_range));
      collect_texts(text, member.value, texts);
    }
  }
}

std::vector<std::string> texts_of(const std::string& text) {
  std::vector<std::string> texts;
  collect_texts(text, parse_json(SourceText{"file.json", text}), texts);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(JsonPlace, of_values_that_fill_the_text) {
  for (const char* text : {"null", "true", "false", "0", "-12", "1.5e+3", "\"x\"", "\"\"", "[]", "{}"}) {
    EXPECT_EQ(texts_of(text), Texts{text});
  }
}

TEST(JsonPlace, ignores_space_around_a_value) {
  EXPECT_EQ(texts_of(" \n\t12 \r\n"), Texts{"12"});
  EXPECT_EQ(texts_of(" true "), Texts{"true"});
  EXPECT_EQ(texts_of("\xEF\xBB\xBF [3]"), (Texts{"[3]", "3"}));  // after a byte-order mark
}

TEST(JsonPlace, of_elements) {
  EXPECT_EQ(texts_of("[1,-2 , 3.5E2,true,null ,\"a\"]"),
            (Texts{"[1,-2 , 3.5E2,true,null ,\"a\"]", "1", "-2", "3.5E2", "true", "null", "\"a\""}));
}

TEST(JsonPlace, of_keys_and_members) {
  EXPECT_EQ(texts_of(R"({"a":1, "b" : {"c":[ ]} })"),
            (Texts{R"({"a":1, "b" : {"c":[ ]} })", "\"a\"", "1", "\"b\"", R"({"c":[ ]})", "\"c\"", "[ ]"}));
}

TEST(JsonPlace, of_strings_with_escapes) {
  EXPECT_EQ(texts_of(R"(["a\"b", "\\", "\\\"", "\u00e9é", ""])"),
            (Texts{R"(["a\"b", "\\", "\\\"", "\u00e9é", ""])", R"("a\"b")", R"("\\")", R"("\\\"")", R"("\u00e9é")",
                   R"("")"}));
}

TEST(JsonValues, have_their_kinds) {
  const JsonValue value = parse_json(SourceText{"", R"([null, true, 7, -7, 2.5, "a\"\u00e9", [1], {"k": 1}])"});
  const JsonArray& elements = *value.as<JsonArray>();
  EXPECT_NE(elements[0].as<std::nullptr_t>(), nullptr);
  EXPECT_EQ(*elements[1].as<bool>(), true);
  EXPECT_EQ(*elements[2].as<std::int64_t>(), 7);
  EXPECT_EQ(*elements[3].as<std::int64_t>(), -7);
  EXPECT_EQ(*elements[4].as<double>(), 2.5);
  EXPECT_EQ(*elements[5].as<std::string>(), "a\"é");
  EXPECT_EQ(elements[6].as<JsonArray>()->size(), 1U);
  EXPECT_EQ(elements[7].as<JsonObject>()->front().key, "k");
  EXPECT_EQ(elements[7].as<JsonArray>(), nullptr);
}

TEST(JsonValues, beyond_64_bits_are_doubles) {
  const JsonValue value = parse_json(SourceText{
      "",
      "[9223372036854775807, 9223372036854775808, 18446744073709551616, -9223372036854775808, -9223372036854775809]"});
  const JsonArray& elements = *value.as<JsonArray>();
  EXPECT_EQ(*elements[0].as<std::int64_t>(), INT64_MAX);
  EXPECT_EQ(*elements[1].as<double>(), 9223372036854775808.0);
  EXPECT_EQ(*elements[2].as<double>(), 18446744073709551616.0);
  EXPECT_EQ(*elements[3].as<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(*elements[4].as<double>(), -9223372036854775808.0);
}

TEST(JsonValues, keep_the_order_of_keys) {
  const JsonValue value = parse_json(SourceText{"", R"({"z": 1, "a": 2, "m": {"z": 3}})"});
  std::string keys;
  for (const JsonMember& member : *value.as<JsonObject>()) keys += member.key;
  EXPECT_EQ(keys, "zam");
}

TEST(JsonFault, end_of_input) {
  EXPECT_EQ(
      fault_in(""),
      "file.json:1:1: error: malformed JSON: syntax error while parsing value - unexpected end of input; expected "
      "'[', '{', or a literal\n"
      "    1 | \n"
      "      | ^\n");
  EXPECT_EQ(
      fault_in("{\"a\": [1"),
      "file.json:1:9: error: malformed JSON: syntax error while parsing array - unexpected end of input; expected "
      "']'\n"
      "    1 | {\"a\": [1\n"
      "      |         ^\n");
}

TEST(JsonFault, token_out_of_place_is_underlined_whole) {
  EXPECT_EQ(
      fault_in("[1,\n 23 456]"),
      "file.json:2:5: error: malformed JSON: syntax error while parsing array - unexpected number literal; expected "
      "']'\n"
      "    2 |  23 456]\n"
      "      |     ^~~\n");
  EXPECT_EQ(fault_in("{\"a\" \"größe\"}"),
            "file.json:1:6: error: malformed JSON: syntax error while parsing object separator - unexpected string "
            "literal; expected ':'\n"
            "    1 | {\"a\" \"größe\"}\n"
            "      |      ^~~~~~~\n");
  EXPECT_EQ(
      fault_in("[1,]"),
      "file.json:1:4: error: malformed JSON: syntax error while parsing value - unexpected ']'; expected '[', '{', "
      "or a literal\n"
      "    1 | [1,]\n"
      "      |    ^\n");
}

TEST(JsonFault, more_after_the_value) {
  EXPECT_EQ(
      fault_in("[1] true"),
      "file.json:1:5: error: malformed JSON: syntax error while parsing value - unexpected true literal; expected "
      "end of input\n"
      "    1 | [1] true\n"
      "      |     ^~~~\n");
}

TEST(JsonFault, inside_a_token_stands_at_its_character) {
  EXPECT_EQ(fault_in("[true, flase]"),
            "file.json:1:9: error: malformed JSON: syntax error while parsing value - invalid literal\n"
            "    1 | [true, flase]\n"
            "      |         ^\n");
  EXPECT_EQ(fault_in("{'a': 1}"),
            "file.json:1:2: error: malformed JSON: syntax error while parsing object key - invalid literal\n"
            "    1 | {'a': 1}\n"
            "      |  ^\n");
  EXPECT_EQ(fault_in("[1.]"),
            "file.json:1:4: error: malformed JSON: syntax error while parsing value - invalid number; expected digit "
            "after '.'\n"
            "    1 | [1.]\n"
            "      |    ^\n");
  EXPECT_EQ(
      fault_in(R"(["a\q"])"),
      "file.json:1:5: error: malformed JSON: syntax error while parsing value - invalid string: forbidden character "
      "after backslash\n"
      "    1 | [\"a\\q\"]\n"
      "      |     ^\n");
  EXPECT_EQ(fault_in("\"abc"),
            "file.json:1:5: error: malformed JSON: syntax error while parsing value - invalid string: missing closing "
            "quote\n"
            "    1 | \"abc\n"
            "      |     ^\n");
}

TEST(JsonFault, bytes_that_are_not_utf8) {
  EXPECT_EQ(fault_in("[\"é\xFF\"]"),
            "file.json:1:4: error: malformed JSON: syntax error while parsing value - invalid string: ill-formed UTF-8 "
            "byte\n"
            "    1 | [\"é?\"]\n"
            "      |    ^\n");
}

TEST(JsonFault, zero_byte) {
  EXPECT_EQ(fault_in(std::string("[1]\0[2]", 7)),
            "file.json:1:4: error: malformed JSON: zero byte\n"
            "    1 | [1] [2]\n"
            "      |    ^\n");
}

TEST(JsonFault, number_that_no_double_holds) {
  EXPECT_EQ(fault_in("[1, -1e999]"),
            "file.json:1:5: error: malformed JSON: number overflow parsing '-1e999'\n"
            "    1 | [1, -1e999]\n"
            "      |     ^~~~~~\n");
}

TEST(JsonFault, key_that_stands_twice) {
  EXPECT_EQ(fault_in("{\"a\": 1,\n \"b\": {\"a\": 2},\n \"a\": 3}"),
            "file.json:3:2: error: the key \"a\" stands here twice\n"
            "    3 |  \"a\": 3}\n"
            "      |  ^~~\n");
  EXPECT_EQ(fault_in(R"({"a": 1, "\u0061": 2})"),
            "file.json:1:10: error: the key \"a\" stands here twice\n"
            "    1 | {\"a\": 1, \"\\u0061\": 2}\n"
            "      |          ^~~~~~~~\n");
}

TEST(JsonFault, nesting_deeper_than_64) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(fault_in(nested(64)), "no error");
  EXPECT_EQ(fault_in(nested(65)), "file.json:1:65: error: JSON nested deeper than 64 levels\n    1 | ..." +
                                      nested(65).substr(16, 96) + "...\n      | " + std::string(51, ' ') + "^\n");
  EXPECT_EQ(fault_in(std::string(100000, '[')).substr(0, 57),
            "file.json:1:65: error: JSON nested deeper than 64 levels\n");
}

TEST(JsonFault, counts_lines_from_where_the_text_starts) {
  EXPECT_EQ(test::diagnostic_of([] {
              parse_json(SourceText{"problems.jsonl", "[1}", 12});
            }),
            "problems.jsonl:12:3: error: malformed JSON: syntax error while parsing array - unexpected '}'; expected "
            "']'\n"
            "   12 | [1}\n"
            "      |   ^\n");
}

class Reader : public testing::Test {
 protected:
  JsonReader read(std::string text) {
    source_.text = std::move(text);
    value_ = parse_json(source_);
    return {source_, value_, "the value"};
  }

 private:
  SourceText source_{"file.json", ""};
  JsonValue value_{nullptr, {}};
};

using JsonReaderTest = Reader;

TEST_F(JsonReaderTest, gives_values_of_each_kind) {
  EXPECT_EQ(read("-3").integer(), -3);
  EXPECT_EQ(read("0").count(), 0);
  EXPECT_EQ(read("9223372036854775807").size(), INT64_MAX);
  EXPECT_EQ(read("-2").number(), -2.0);
  EXPECT_EQ(read("2.5e1").number(), 25.0);
  EXPECT_TRUE(read("true").boolean());
  EXPECT_EQ(read("\"a\\tb\"").string(), "a\tb");
  EXPECT_EQ(read("[3, -1]").integers(), (std::vector<std::int64_t>{3, -1}));
  EXPECT_TRUE(read("[]").elements().empty());
}

TEST_F(JsonReaderTest, names_elements_and_members) {
  EXPECT_EQ(read("[[1, 2]]").elements()[0].elements()[1].name(), "the value[0][1]");
  EXPECT_EQ(read(R"({"a": {"b": [1]}})").member("a").member("b").elements()[0].name(), "\"b\"[0]");
  EXPECT_EQ(read(R"({"a": 1, "b": 2})").members()[1].second.name(), "\"b\"");
}

TEST_F(JsonReaderTest, knows_its_members) {
  const JsonReader reader = read(R"({"b": 1, "a": 2})");
  EXPECT_TRUE(reader.has("a"));
  EXPECT_FALSE(reader.has("c"));
  EXPECT_EQ(reader.member("a").integer(), 2);
  EXPECT_EQ(reader.members()[0].first, "b");
  EXPECT_EQ(reader.members()[1].second.integer(), 2);
}

TEST(JsonReaderFault, value_of_another_kind) {
  EXPECT_EQ(reader_fault("[1, \"x\"]", [](const JsonReader& reader) { reader.integers(); }),
            "file.json:1:5: error: the value[1] must be an integer, not a string\n"
            "    1 | [1, \"x\"]\n"
            "      |     ^~~\n");
  EXPECT_EQ(reader_fault(" null", [](const JsonReader& reader) { reader.boolean(); }),
            "file.json:1:2: error: the value must be true or false, not null\n"
            "    1 |  null\n"
            "      |  ^~~~\n");
  EXPECT_EQ(reader_fault("\"1\"", [](const JsonReader& reader) { reader.number(); }),
            "file.json:1:1: error: the value must be a number, not a string\n"
            "    1 | \"1\"\n"
            "      | ^~~\n");
  EXPECT_EQ(reader_fault("{\"a\": 1}", [](const JsonReader& reader) { reader.string(); }),
            "file.json:1:1: error: the value must be a string, not an object\n"
            "    1 | {\"a\": 1}\n"
            "      | ^~~~~~~~\n");
  EXPECT_EQ(reader_fault("true", [](const JsonReader& reader) { reader.elements(); }),
            "file.json:1:1: error: the value must be an array, not a truth value\n"
            "    1 | true\n"
            "      | ^~~~\n");
  EXPECT_EQ(reader_fault("[]", [](const JsonReader& reader) { reader.members(); }),
            "file.json:1:1: error: the value must be an object, not an array\n"
            "    1 | []\n"
            "      | ^~\n");
  EXPECT_EQ(reader_fault("2.5", [](const JsonReader& reader) { reader.has("a"); }),
            "file.json:1:1: error: the value must be an object, not a number\n"
            "    1 | 2.5\n"
            "      | ^~~\n");
  EXPECT_EQ(reader_fault("7", [](const JsonReader& reader) { reader.member("a"); }),
            "file.json:1:1: error: the value must be an object, not an integer\n"
            "    1 | 7\n"
            "      | ^\n");
}

TEST(JsonReaderFault, number_that_is_no_integer) {
  EXPECT_EQ(reader_fault("1.0", [](const JsonReader& reader) { reader.integer(); }),
            "file.json:1:1: error: the value must be an integer, not 1.0\n"
            "    1 | 1.0\n"
            "      | ^~~\n"
            "hint: write it without a fraction or an exponent\n");
  EXPECT_EQ(reader_fault("[1E3]", [](const JsonReader& reader) { reader.integers(); }),
            "file.json:1:2: error: the value[0] must be an integer, not 1E3\n"
            "    1 | [1E3]\n"
            "      |  ^~~\n"
            "hint: write it without a fraction or an exponent\n");
}

TEST(JsonReaderFault, number_beyond_63_bits) {
  EXPECT_EQ(reader_fault("[9223372036854775808]", [](const JsonReader& reader) { reader.integers(); }),
            "file.json:1:2: error: the value[0] does not fit in 63 bits\n"
            "    1 | [9223372036854775808]\n"
            "      |  ^~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(reader_fault("-9223372036854775809", [](const JsonReader& reader) { reader.integer(); }),
            "file.json:1:1: error: the value does not fit in 63 bits\n"
            "    1 | -9223372036854775809\n"
            "      | ^~~~~~~~~~~~~~~~~~~~\n");
}

TEST(JsonReaderFault, size_below_1) {
  EXPECT_EQ(reader_fault("0", [](const JsonReader& reader) { reader.size(); }),
            "file.json:1:1: error: the value is 0\n"
            "    1 | 0\n"
            "      | ^\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(reader_fault("-2", [](const JsonReader& reader) { reader.size(); }),
            "file.json:1:1: error: the value is negative\n"
            "    1 | -2\n"
            "      | ^~\n"
            "hint: sizes start at 1\n");
}

TEST(JsonReaderFault, count_below_0) {
  EXPECT_EQ(reader_fault("-2", [](const JsonReader& reader) { reader.count(); }),
            "file.json:1:1: error: the value is negative\n"
            "    1 | -2\n"
            "      | ^~\n");
}

TEST(JsonReaderFault, member_that_is_missing) {
  EXPECT_EQ(reader_fault("{\"a\": {\"b\": 1}}", [](const JsonReader& reader) { reader.member("a").member("c"); }),
            "file.json:1:7: error: \"a\" has no \"c\"\n"
            "    1 | {\"a\": {\"b\": 1}}\n"
            "      |       ^~~~~~~~\n");
}

// Fails at the bytes 2 to 4 of the text.
int fail_inside(const SourceText& text) { throw InputError(diagnose(text, {2, 4}, "not so", "but so")); }

TEST(JsonParseText, reports_the_place_inside_the_string) {
  EXPECT_EQ(
      reader_fault("[\n  \"abcdef\"]", [](const JsonReader& reader) { reader.elements()[0].parse_text(fail_inside); }),
      "file.json:2:6: error: not so\n"
      "    2 |   \"abcdef\"]\n"
      "      |      ^~\n"
      "hint: but so\n");
}

TEST(JsonParseText, reports_the_end_of_the_text_at_the_closing_quote) {
  EXPECT_EQ(reader_fault("[\"ab\"]", [](const JsonReader& reader) { reader.elements()[0].parse_text(fail_inside); }),
            "file.json:1:5: error: not so\n"
            "    1 | [\"ab\"]\n"
            "      |     ^~\n"
            "hint: but so\n");
}

TEST(JsonParseText, reports_the_whole_string_where_it_has_escapes) {
  EXPECT_EQ(reader_fault(R"(["ab\u0063def"])",
                         [](const JsonReader& reader) { reader.elements()[0].parse_text(fail_inside); }),
            "file.json:1:2: error: not so\n"
            "    1 | [\"ab\\u0063def\"]\n"
            "      |  ^~~~~~~~~~~~~\n"
            "hint: but so\n");
}

TEST_F(JsonReaderTest, parse_text_gives_the_value_and_names_the_text) {
  const auto parse = [](const SourceText& text) { return text.name + "=" + text.text; };
  EXPECT_EQ(read(R"({"a": "b\\c"})").member("a").parse_text(parse), "\"a\"=b\\c");
}

// A tree of random shape; its strings have every kind of character that JSON escapes.
nlohmann::json random_tree(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::arbitrary<std::int64_t>();
    case 3:
      return *rc::gen::arbitrary<std::int32_t>() / 8.0;
    case 4:
      return *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab\"\\/\n\t\x01{}[],:")));
    case 5: {
      nlohmann::json array = nlohmann::json::array();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) array.push_back(random_tree(depth - 1));
      return array;
    }
    default: {
      nlohmann::json object = nlohmann::json::object();
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i)
        object[std::string(static_cast<std::size_t>(i), '"')] = random_tree(depth - 1);
      return object;
    }
  }
}

void expect_texts_match(const std::string& text, const JsonValue& value, const nlohmann::json& tree) {
  RC_ASSERT(nlohmann::json::parse(text_at(text, value.range())) == tree);
  if (const JsonArray* array = value.as<JsonArray>()) {
    RC_ASSERT(array->size() == tree.size());
    for (std::size_t i = 0; i < array->size(); ++i) expect_texts_match(text, (*array)[i], tree[i]);
  }
  if (const JsonObject* object = value.as<JsonObject>()) {
    RC_ASSERT(object->size() == tree.size());
    for (const JsonMember& member : *object) {
      RC_ASSERT(nlohmann::json::parse(text_at(text, member.key_range)) == nlohmann::json(member.key));
      expect_texts_match(text, member.value, tree.at(member.key));
    }
  }
}

RC_GTEST_PROP(JsonPlace, holds_the_text_of_every_value_of_a_random_tree, ()) {
  const nlohmann::json tree = random_tree(4);
  const std::string text = tree.dump(*rc::gen::inRange(-1, 3));
  expect_texts_match(text, parse_json(SourceText{"file.json", text}), tree);
}

RC_GTEST_PROP(JsonFault, any_text_parses_or_is_at_fault_inside_it, ()) {
  const auto characters = rc::gen::elementOf(std::string("[]{},:\"\\u0aet1-.rfalsn \n\xC3\xA9"));
  const std::string text = *rc::gen::container<std::string>(characters);
  try {
    parse_json(SourceText{"file.json", text});
  } catch (const InputError& error) {
    RC_ASSERT(error.diagnostic().range.begin <= text.size());
  }
}

}  // namespace
}  // namespace retile
