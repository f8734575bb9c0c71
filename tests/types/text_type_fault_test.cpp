// What users read when the text of a type is at fault, word for word.

#include <gtest/gtest.h>

#include <string>

#include "retile/types/scanning.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

std::string type_fault(std::string_view text) {
  const Mesh mesh({{"x", 2}, {"y", 3}, {"rows", 6}, {"eight", 8}, {"one", 1}});
  return test::diagnostic_of([&] { return parse_type(text, mesh); });
}

// --- Form.

TEST(TypeFault, empty_text) {
  EXPECT_EQ(type_fault(""),
            "type:1:1: error: expected '[' at the start of a type, found the end\n"
            "    1 | \n"
            "      | ^\n");
}

TEST(TypeFault, no_bracket) {
  EXPECT_EQ(type_fault("8{x}16"),
            "type:1:1: error: expected '[' at the start of a type, found '8'\n"
            "    1 | 8{x}16\n"
            "      | ^\n");
  EXPECT_EQ(type_fault("[8{x}16"),
            "type:1:8: error: expected ']' or ',' after a dimension, found the end\n"
            "    1 | [8{x}16\n"
            "      |        ^\n");
  EXPECT_EQ(type_fault("[8}"),
            "type:1:3: error: expected ']' or ',' after a dimension, found '}'\n"
            "    1 | [8}\n"
            "      |   ^\n");
}

TEST(TypeFault, no_brace) {
  EXPECT_EQ(type_fault("[8{x]"),
            "type:1:5: error: expected '}' or ',' after an axis of a dimension, found ']'\n"
            "    1 | [8{x]\n"
            "      |     ^\n");
  EXPECT_EQ(type_fault("[8{x"),
            "type:1:5: error: expected '}' or ',' after an axis of a dimension, found the end\n"
            "    1 | [8{x\n"
            "      |     ^\n");
}

TEST(TypeFault, no_comma) {
  EXPECT_EQ(type_fault("[8{x}16 128]"),
            "type:1:9: error: expected ']' or ',' after a dimension, found '128'\n"
            "    1 | [8{x}16 128]\n"
            "      |         ^~~\n");
  EXPECT_EQ(type_fault("[8{x y}48]"),
            "type:1:6: error: expected '}' or ',' after an axis of a dimension, found 'y'\n"
            "    1 | [8{x y}48]\n"
            "      |      ^\n");
}

TEST(TypeFault, no_dimension) {
  EXPECT_EQ(type_fault("["),
            "type:1:2: error: expected a size, found the end\n"
            "    1 | [\n"
            "      |  ^\n");
  EXPECT_EQ(type_fault("[8,]"),
            "type:1:4: error: expected a size, found ']'\n"
            "    1 | [8,]\n"
            "      |    ^\n");
}

TEST(TypeFault, no_axis) {
  EXPECT_EQ(type_fault("[8{x,}48]"),
            "type:1:6: error: expected an axis name, found '}'\n"
            "    1 | [8{x,}48]\n"
            "      |      ^\n"
            "hint: names are letters, digits and _, or any text in double quotes\n");
}

TEST(TypeFault, no_sizes) {
  EXPECT_EQ(type_fault("[{x}16]"),
            "type:1:2: error: expected a size, found '{'\n"
            "    1 | [{x}16]\n"
            "      |  ^\n");
  EXPECT_EQ(type_fault("[8{x}, 4]"),
            "type:1:6: error: expected the global size, found ','\n"
            "    1 | [8{x}, 4]\n"
            "      |      ^\n");
  EXPECT_EQ(type_fault("[8{x:}16]"),
            "type:1:6: error: expected the size of axis x, found '}'\n"
            "    1 | [8{x:}16]\n"
            "      |      ^\n");
}

TEST(TypeFault, parts_cut_short) {
  EXPECT_EQ(type_fault("[8{rows:(1}16]"),
            "type:1:11: error: expected ')' after the size of the more major parts, found '}'\n"
            "    1 | [8{rows:(1}16]\n"
            "      |           ^\n");
  EXPECT_EQ(type_fault("[8{rows:(1)}16]"),
            "type:1:12: error: expected the size of a part, found '}'\n"
            "    1 | [8{rows:(1)}16]\n"
            "      |            ^\n");
  EXPECT_EQ(type_fault("[8{rows:()2}16]"),
            "type:1:10: error: expected the size of the more major parts, found ')'\n"
            "    1 | [8{rows:()2}16]\n"
            "      |          ^\n");
}

TEST(TypeFault, quotes_never_closed) {
  EXPECT_EQ(type_fault("[8{\"x}16]"),
            "type:1:4: error: the quotes around an axis name are never closed\n"
            "    1 | [8{\"x}16]\n"
            "      |    ^~~~~~\n");
}

TEST(TypeFault, comment_never_closed) {
  EXPECT_EQ(type_fault("[8 /* rows ]"),
            "type:1:4: error: this comment is never closed\n"
            "    1 | [8 /* rows ]\n"
            "      |    ^~\n"
            "hint: close it with */\n");
}

TEST(TypeFault, more_after_the_end) {
  EXPECT_EQ(type_fault("[8{x}16] [4]"),
            "type:1:10: error: expected the end of the type, found '['\n"
            "    1 | [8{x}16] [4]\n"
            "      |          ^\n");
}

// --- Axes.

TEST(TypeFault, unknown_axis) {
  EXPECT_EQ(type_fault("[8, 4{z}8]"),
            "type:1:7: error: unknown axis z\n"
            "    1 | [8, 4{z}8]\n"
            "      |       ^\n"
            "hint: the mesh has x, y, rows, eight, one\n");
}

TEST(TypeFault, unknown_axis_with_a_name_that_is_near) {
  EXPECT_EQ(type_fault("[8{\"row s\"}48]"),
            "type:1:4: error: unknown axis \"row s\"\n"
            "    1 | [8{\"row s\"}48]\n"
            "      |    ^~~~~~~\n"
            "hint: did you mean rows? the mesh has x, y, rows, eight, one\n");
}

TEST(TypeFault, unknown_axis_in_another_case) {
  EXPECT_EQ(type_fault("[8{X}16]"),
            "type:1:4: error: unknown axis X\n"
            "    1 | [8{X}16]\n"
            "      |    ^\n"
            "hint: did you mean x? the mesh has x, y, rows, eight, one\n");
}

TEST(TypeFault, axis_used_twice_in_a_dimension) {
  EXPECT_EQ(type_fault("[8{x,y,x}96]"),
            "type:1:8: error: axis x is used twice\n"
            "    1 | [8{x,y,x}96]\n"
            "      |        ^\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(TypeFault, axis_used_twice_in_two_dimensions) {
  EXPECT_EQ(type_fault("[8{x}16,\n 8{y, \"x\":2}48]"),
            "type:2:7: error: axis x is used twice\n"
            "    2 |  8{y, \"x\":2}48]\n"
            "      |       ^~~~~\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(TypeFault, axis_of_size_1_used_twice) {
  EXPECT_EQ(type_fault("[8{one}8, 4{one}4]"),
            "type:1:13: error: axis one is used twice\n"
            "    1 | [8{one}8, 4{one}4]\n"
            "      |             ^~~\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(TypeFault, part_used_twice) {
  EXPECT_EQ(type_fault("[8{rows:(1)2}16, 4{rows:(1)2}8]"),
            "type:1:20: error: axis rows:(1)2 is used twice\n"
            "    1 | [8{rows:(1)2}16, 4{rows:(1)2}8]\n"
            "      |                    ^~~~~~~~~\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(TypeFault, parts_that_overlap) {
  EXPECT_EQ(type_fault("[8{rows:(1)2,rows}96]"),
            "type:1:14: error: rows overlaps rows:(1)2, which is used already\n"
            "    1 | [8{rows:(1)2,rows}96]\n"
            "      |              ^~~~\n"
            "hint: each part of an axis cuts at most one dimension, once\n");
  EXPECT_EQ(type_fault("[8{eight:(2)4}32, 4{eight:(1)4}16]"),
            "type:1:21: error: eight:(1)4 overlaps eight:(2)4, which is used already\n"
            "    1 | [8{eight:(2)4}32, 4{eight:(1)4}16]\n"
            "      |                     ^~~~~~~~~~\n"
            "hint: each part of an axis cuts at most one dimension, once\n");
}

TEST(TypeFault, part_that_the_axis_does_not_have) {
  EXPECT_EQ(type_fault("[8{y, rows:(3)2}48]"),
            "type:1:7: error: rows:(3)2 is no part of axis rows\n"
            "    1 | [8{y, rows:(3)2}48]\n"
            "      |       ^~~~~~~~~\n"
            "hint: from major to minor its parts are rows:(1)2, rows:(2)3; neighbours may be joined\n");
  EXPECT_EQ(type_fault("[8{rows:(4611686018427387904)4}32]"),
            "type:1:4: error: rows:(4611686018427387904)4 is no part of axis rows\n"
            "    1 | [8{rows:(4611686018427387904)4}32]\n"
            "      |    ^~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "hint: from major to minor its parts are rows:(1)2, rows:(2)3; neighbours may be joined\n");
}

TEST(TypeFault, part_of_an_axis_that_has_none) {
  EXPECT_EQ(type_fault("[8{y:(1)2}16]"),
            "type:1:4: error: y:(1)2 is no part of axis y\n"
            "    1 | [8{y:(1)2}16]\n"
            "      |    ^~~~~~\n"
            "hint: an axis of size 3 has no parts but the whole\n");
  EXPECT_EQ(type_fault("[8{one:(1)2}16]"),
            "type:1:4: error: one:(1)2 is no part of axis one\n"
            "    1 | [8{one:(1)2}16]\n"
            "      |    ^~~~~~~~\n"
            "hint: an axis of size 1 has no parts but the whole\n");
}

TEST(TypeFault, repeated_size_is_another) {
  EXPECT_EQ(type_fault("[8{y, x:3}48]"),
            "type:1:7: error: axis x has size 2, not 3\n"
            "    1 | [8{y, x:3}48]\n"
            "      |       ^~~\n");
}

// --- Sizes.

TEST(TypeFault, tile_and_axes_make_another_size) {
  EXPECT_EQ(type_fault("[128, 8{x,rows:(2)3}96]"),
            "type:1:7: error: tile and axes do not make the global size: 8 x 2 (x) x 3 (rows:(2)3) = 48, not 96\n"
            "    1 | [128, 8{x,rows:(2)3}96]\n"
            "      |       ^~~~~~~~~~~~~~~~\n"
            "hint: for 96 in all, the tile is 16\n");
}

TEST(TypeFault, size_that_does_not_divide) {
  EXPECT_EQ(type_fault("[8{x}17]"),
            "type:1:2: error: tile and axes do not make the global size: 8 x 2 (x) = 16, not 17\n"
            "    1 | [8{x}17]\n"
            "      |  ^~~~~~\n"
            "hint: 17 does not divide into 2 tiles\n");
}

TEST(TypeFault, global_size_smaller_than_the_tile) {
  EXPECT_EQ(type_fault("[8{x}4]"),
            "type:1:2: error: tile and axes do not make the global size: 8 x 2 (x) = 16, not 4\n"
            "    1 | [8{x}4]\n"
            "      |  ^~~~~\n"
            "hint: for 4 in all, the tile is 2\n");
}

TEST(TypeFault, no_axis_cuts_but_the_sizes_differ) {
  EXPECT_EQ(type_fault("[8{}16]"),
            "type:1:2: error: tile size 8 and global size 16 differ, and no axis cuts the dimension\n"
            "    1 | [8{}16]\n"
            "      |  ^~~~~\n");
}

TEST(TypeFault, an_axis_of_size_1_cuts_nothing) {
  EXPECT_EQ(type_fault("[8{one}16]"),
            "type:1:2: error: tile and axes do not make the global size: 8 x 1 (one) = 8, not 16\n"
            "    1 | [8{one}16]\n"
            "      |  ^~~~~~~~\n"
            "hint: for 16 in all, the tile is 16\n");
}

TEST(TypeFault, size_0) {
  EXPECT_EQ(type_fault("[8, 0]"),
            "type:1:5: error: a size is 0\n"
            "    1 | [8, 0]\n"
            "      |     ^\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(type_fault("[8{x}0]"),
            "type:1:6: error: the global size is 0\n"
            "    1 | [8{x}0]\n"
            "      |      ^\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(type_fault("[8{x:0}16]"),
            "type:1:6: error: the size of axis x is 0\n"
            "    1 | [8{x:0}16]\n"
            "      |      ^\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(type_fault("[8{rows:(0)2}16]"),
            "type:1:10: error: the size of the more major parts is 0\n"
            "    1 | [8{rows:(0)2}16]\n"
            "      |          ^\n"
            "hint: sizes start at 1\n");
}

TEST(TypeFault, negative_size) {
  EXPECT_EQ(type_fault("[8, -16]"),
            "type:1:5: error: a size is negative\n"
            "    1 | [8, -16]\n"
            "      |     ^~~\n");
  EXPECT_EQ(type_fault("[8{x}-16]"),
            "type:1:6: error: the global size is negative\n"
            "    1 | [8{x}-16]\n"
            "      |      ^~~\n");
}

TEST(TypeFault, size_beyond_63_bits) {
  EXPECT_EQ(type_fault("[8{x}9223372036854775808]"),
            "type:1:6: error: the global size does not fit in 63 bits\n"
            "    1 | [8{x}9223372036854775808]\n"
            "      |      ^~~~~~~~~~~~~~~~~~~\n"
            "hint: the largest size is 9223372036854775807\n");
}

TEST(TypeFault, tile_times_axes_beyond_63_bits) {
  EXPECT_EQ(type_fault("[4, 4611686018427387904{x}16]"),
            "type:1:5: error: tile size times axes does not fit in 63 bits\n"
            "    1 | [4, 4611686018427387904{x}16]\n"
            "      |     ^~~~~~~~~~~~~~~~~~~~~~~~\n");
}

TEST(TypeFault, array_beyond_63_bits) {
  EXPECT_EQ(type_fault(" [4294967296, 4294967296]"),
            "type:1:2: error: the number of elements of the global array does not fit in 63 bits\n"
            "    1 |  [4294967296, 4294967296]\n"
            "      |  ^~~~~~~~~~~~~~~~~~~~~~~~\n");
}

// --- Longer texts.

TEST(TypeFault, in_a_named_text) {
  const Mesh mesh({{"x", 2}});
  const SourceText source{"argument SRC", "[8{y}16]", 1};
  EXPECT_EQ(test::diagnostic_of([&] { return parse_type(source, mesh); }),
            "argument SRC:1:4: error: unknown axis y\n"
            "    1 | [8{y}16]\n"
            "      |    ^\n"
            "hint: the mesh has x\n");
}

TEST(TypeFault, in_a_longer_text) {
  const SourceText source{"steps", "mesh {x: 2}\n[8{x}16]\n-> [8{y}16]", 10};
  Scanner scanner(source);
  scanner.name("a word");
  const Mesh mesh = scan_mesh(scanner);
  scan_type(scanner, mesh);
  scanner.expect("->", "before a step");
  EXPECT_EQ(test::diagnostic_of([&] { return scan_type(scanner, mesh); }),
            "steps:12:7: error: unknown axis y\n"
            "   12 | -> [8{y}16]\n"
            "      |       ^\n"
            "hint: the mesh has x\n");
}

}  // namespace
}  // namespace retile
