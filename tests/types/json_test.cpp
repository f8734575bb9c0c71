#include "retile/types/json.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

using Action = std::function<std::string(const JsonReader&)>;

// What the action prints of the value, or what the user reads.
std::string read(const std::string& text, const Action& action) {
  const SourceText source{"file.json", text};
  const JsonValue value = parse_json(source);
  std::string printed;
  const std::string fault = test::diagnostic_of([&] { printed = action(JsonReader(source, value, "the value")); });
  return fault == "no error" ? printed : fault;
}

std::string mesh_in(const std::string& text) {
  return read(text, [](const JsonReader& reader) { return to_string(read_mesh(reader)); });
}

const Mesh& mesh_of_json() {
  static const Mesh mesh({{"a", 2}, {"b", 6}, {"my axis", 4}, {"c:d", 2}});
  return mesh;
}

std::string layout_in(const std::string& text) {
  return read(text, [](const JsonReader& reader) { return to_string(read_layout_text(reader, mesh_of_json())); });
}

std::string layout_by_axes_in(const std::string& text) {
  return read(text, [](const JsonReader& reader) {
    const JsonReader shape = reader.member("shape");
    const JsonReader axes = reader.member("src");
    LayoutMembers members;
    members.shape = &shape;
    members.axes = &axes;
    InputFaults faults;
    const auto layout = read_layout(members, &mesh_of_json(), UnevenRule::ceiling, Reduction::sum, faults);
    faults.require_none();
    return to_string(*layout);
  });
}

TEST(JsonMesh, keeps_the_order_of_axes) {
  EXPECT_EQ(mesh_in(R"({"b": 2, "a": 3, "my axis": 1})"), R"({b: 2, a: 3, "my axis": 1})");
}

TEST(JsonMesh, may_have_no_axes) { EXPECT_EQ(mesh_in(" {}"), "{}"); }

TEST(JsonMesh, fault_of_the_mesh_as_a_whole) {
  EXPECT_EQ(mesh_in("[2, 2]"),
            "file.json:1:1: error: the value must be an object, not an array\n"
            "    1 | [2, 2]\n"
            "      | ^~~~~~\n");
}

TEST(JsonMesh, fault_of_an_axis) {
  EXPECT_EQ(mesh_in(R"({"a": 2, "": 2})"),
            "file.json:1:10: error: an axis has an empty name\n"
            "    1 | {\"a\": 2, \"\": 2}\n"
            "      |          ^~~~~\n");
  EXPECT_EQ(mesh_in(R"({"a": 65536, "b": 65536})"),
            "file.json:1:14: error: the mesh has too many devices\n"
            "    1 | {\"a\": 65536, \"b\": 65536}\n"
            "      |              ^~~~~~~~~~\n"
            "hint: at most 2147483647 fit\n");
}

TEST(JsonMesh, fault_of_a_size) {
  EXPECT_EQ(mesh_in(R"({"a": 0})"),
            "file.json:1:7: error: \"a\" is 0\n"
            "    1 | {\"a\": 0}\n"
            "      |       ^\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(mesh_in(R"({"a": 9223372036854775808})"),
            "file.json:1:7: error: \"a\" does not fit in 63 bits\n"
            "    1 | {\"a\": 9223372036854775808}\n"
            "      |       ^~~~~~~~~~~~~~~~~~~\n");
}

TEST(JsonMesh, axis_named_twice) {
  EXPECT_EQ(test::diagnostic_of([] {
              return parse_json(SourceText{"file.json", R"({"a": 2, "a": 2})"});
            }),
            "file.json:1:10: error: the key \"a\" stands here twice\n"
            "    1 | {\"a\": 2, \"a\": 2}\n"
            "      |          ^~~\n");
}

TEST(JsonLayoutText, is_a_type) {
  EXPECT_EQ(layout_in(R"("[4{a, b:(2)3}24, 3]")"), "[4{a,b:(2)3}24, 3]");
  EXPECT_EQ(layout_in(R"("[4{\"my axis\"}16]")"), R"([4{"my axis"}16])");
}

TEST(JsonLayoutText, fault_stands_inside_the_string) {
  EXPECT_EQ(layout_in(R"(  "[4{a}8, 4{A}8]")"),
            "file.json:1:14: error: unknown axis A\n"
            "    1 |   \"[4{a}8, 4{A}8]\"\n"
            "      |              ^\n"
            "hint: did you mean a? the mesh has a, b, \"my axis\", \"c:d\"\n");
  EXPECT_EQ(layout_in(R"("[4{a}8")"),
            "file.json:1:8: error: expected ']' or ',' after a dimension, found the end\n"
            "    1 | \"[4{a}8\"\n"
            "      |        ^\n");
}

TEST(JsonLayoutText, fault_stands_at_the_whole_string_where_it_has_escapes) {
  EXPECT_EQ(layout_in(R"("[4{\"b\"}8]")"),
            "file.json:1:1: error: a size of 8 cannot be cut into 6 tiles of 4\n"
            "    1 | \"[4{\\\"b\\\"}8]\"\n"
            "      | ^~~~~~~~~~~~~\n"
            "hint: for 8 in all, the largest tile is 2\n");
}

TEST(JsonLayoutText, is_a_string) {
  EXPECT_EQ(layout_in("[8]"),
            "file.json:1:1: error: the value must be a string, not an array\n"
            "    1 | [8]\n"
            "      | ^~~\n");
}

TEST(JsonLayoutByAxes, cuts_the_shape) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24, 3], "src": [["a", "b"], []]})"), "[2{a,b}24, 3]");
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [], "src": []})"), "[]");
}

TEST(JsonLayoutByAxes, names_axes_as_types_do) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24], "src": [["b:(2)3", "a:2"]]})"), "[4{b:(2)3,a}24]");
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [8], "src": [["my axis"]]})"), R"([2{"my axis"}8])");
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [8], "src": [["\"my axis\":(2)2"]]})"), R"([4{"my axis":(2)2}8])");
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [8], "src": [["c:d"]]})"), R"([4{"c:d"}8])");
}

TEST(JsonLayoutByAxes, ranks_that_differ) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24, 3], "src": [["a"], [], []]})"),
            "file.json:1:27: error: \"src\" is of rank 3, and the shape of rank 2\n"
            "    1 | {\"shape\": [24, 3], \"src\": [[\"a\"], [], []]}\n"
            "      |                           ^~~~~~~~~~~~~~~\n"
            "hint: give one list of axes per dimension, [] where it is not cut\n");
}

TEST(JsonLayoutByAxes, unknown_axis) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24], "src": [["a", "B"]]})"),
            "file.json:1:31: error: unknown axis B\n"
            "    1 | {\"shape\": [24], \"src\": [[\"a\", \"B\"]]}\n"
            "      |                               ^~~\n"
            "hint: did you mean b? the mesh has a, b, \"my axis\", \"c:d\"\n");
}

TEST(JsonLayoutByAxes, part_that_the_axis_does_not_have) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24], "src": [["b:(3)2"]]})"),
            "file.json:1:26: error: b:(3)2 is no part of axis b\n"
            "    1 | {\"shape\": [24], \"src\": [[\"b:(3)2\"]]}\n"
            "      |                          ^~~~~~~~\n"
            "hint: from major to minor its parts are b:(1)2, b:(2)3; neighbours may be joined\n");
}

TEST(JsonLayoutByAxes, part_with_more_after_it) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24], "src": [["b:(2)3,a"]]})"),
            "file.json:1:33: error: expected the end of the axis, found ','\n"
            "    1 | {\"shape\": [24], \"src\": [[\"b:(2)3,a\"]]}\n"
            "      |                                 ^\n");
}

TEST(JsonLayoutByAxes, axis_used_twice) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24, 8], "src": [["a"], ["a"]]})"),
            "file.json:1:36: error: axis a is used twice\n"
            "    1 | {\"shape\": [24, 8], \"src\": [[\"a\"], [\"a\"]]}\n"
            "      |                                    ^~~\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(JsonLayoutByAxes, shape_that_does_not_divide) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [3, 8], "src": [[], ["a", "b"]]})"), "[3, 1{a,b}8]");
}

TEST(JsonLayoutByAxes, shape_beyond_63_bits) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [4294967296, 4294967296], "src": [[], []]})"),
            "file.json:1:11: error: the number of elements of the global array does not fit in 63 bits\n"
            "    1 | {\"shape\": [4294967296, 4294967296], \"src\": [[], []]}\n"
            "      |           ^~~~~~~~~~~~~~~~~~~~~~~~\n");
}

TEST(JsonLayoutByAxes, size_of_an_empty_array) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24, 0], "src": [[], ["a"]]})"), "[24, 0{a}0]");
}

TEST(JsonLayoutByAxes, size_below_0) {
  EXPECT_EQ(layout_by_axes_in(R"({"shape": [24, -1], "src": [[], []]})"),
            "file.json:1:16: error: \"shape\"[1] is negative\n"
            "    1 | {\"shape\": [24, -1], \"src\": [[], []]}\n"
            "      |                ^~\n");
}

}  // namespace
}  // namespace retile
