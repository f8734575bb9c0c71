#include <gtest/gtest.h>

#include "retile/types/layout.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

const Mesh& mesh_of_text() {
  static const Mesh mesh({{"x", 2}, {"y", 4}});
  return mesh;
}

// What is printed of the layout, or what the user reads.
std::string printed(const std::string& text) {
  std::string text_of_layout;
  const std::string fault = test::diagnostic_of([&] {
    text_of_layout = to_string(parse_layout(SourceText{"layout", text}, mesh_of_text()));
  });
  return fault == "no error" ? text_of_layout : fault;
}

TEST(LayoutText, prints_back) {
  for (const char* text : {
           "[]",
           "[9{x}17, 23]",
           "[2{y,x}9]",
           "[2{y,x}9] nested",
           "[3{x,y}17, 8] balanced",
           "[3*4{y}16*128, 4096]",
           "[2*1{x}2*5, 3*2{y}5] balanced",
           "[5{y:(1)2}9]",
           "[0{x}0, 4]",
           "[8, 16] sum {x}",
           "[8, 4{y}16] max {x}",
           "[8, 4{x}7] nested min {y:(2)2}",
           "[8{x}16] on [7, 6, 5, 4, 3, 2, 1, 0]",
           "[9{x}17] balanced sum {y} on [0, 1, 2, 3, 4, 5, 6, 9]",
           "[8, 4] boxes {[0:4, 0:4] [6:8, 0:4]; ; [4:6, 0:4]}",
           "[8] boxes {[0:8]; [0:8]}",
           "[] boxes {[]; }",
           "[0, 4] boxes {; }",
       }) {
    EXPECT_EQ(printed(text), text);
  }
}

TEST(LayoutText, may_name_the_rule_of_ceilings) { EXPECT_EQ(printed("[9{x}17] ceil"), "[9{x}17]"); }

TEST(LayoutText, may_stand_on_several_lines_and_in_other_words) {
  EXPECT_EQ(printed("[ 9 {\"x\":2} 17 ,\n  2*3 ]\n balanced"), "[9{x}17, 2*3] balanced");
}

TEST(LayoutText, of_a_type_is_the_types) {
  EXPECT_EQ(printed("[8{x}16] nested"), "[8{x}16]");
  EXPECT_EQ(to_string(Layout(parse_type("[8{x}16]", mesh_of_text()))), "[8{x}16]");
}

TEST(LayoutText, parts_of_an_axis_are_told_from_it_where_ceilings_nest) {
  EXPECT_EQ(printed("[2{y:(2)2,y:(1)2}5] nested"), "[2{y:(2)2,y:(1)2}5] nested");
  EXPECT_EQ(printed("[2{y:(2)2,y:(1)2}5]"), "[2{y}5]");
  EXPECT_EQ(parse_layout("[2{y:(2)2,y:(1)2}5]", mesh_of_text()), parse_layout("[2{y}5]", mesh_of_text()));
}

TEST(LayoutText, tile_that_is_not_the_largest) {
  EXPECT_EQ(printed("[23, 8{x}17]"),
            "layout:1:6: error: a size of 17 cannot be cut into 2 tiles of 8\n"
            "    1 | [23, 8{x}17]\n"
            "      |      ^~~~~~\n"
            "hint: for 17 in all, the largest tile is 9\n");
  EXPECT_EQ(printed("[4{x,y}36] balanced"),
            "layout:1:2: error: a size of 36 cannot be cut into 8 tiles of 4\n"
            "    1 | [4{x,y}36] balanced\n"
            "      |  ^~~~~~~~\n"
            "hint: for 36 in all, the largest tile is 5\n");
  EXPECT_EQ(printed("[3*4{y}17*128]"),
            "layout:1:4: error: a size of 17 cannot be cut into 4 tiles of 4\n"
            "    1 | [3*4{y}17*128]\n"
            "      |    ^~~~~~\n"
            "hint: for 17 in all, the largest tile is 5\n");
}

TEST(LayoutText, axis_that_cuts_twice) {
  EXPECT_EQ(printed("[9{x}17, 12{x}23]"),
            "layout:1:13: error: axis x is used twice\n"
            "    1 | [9{x}17, 12{x}23]\n"
            "      |             ^\n"
            "hint: an axis cuts at most one dimension, once\n");
  EXPECT_EQ(printed("[1{x}2*9{x}17]"),
            "layout:1:10: error: axis x is used twice\n"
            "    1 | [1{x}2*9{x}17]\n"
            "      |          ^\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(LayoutText, unknown_axis) {
  EXPECT_EQ(printed("[9{X}17]"),
            "layout:1:4: error: unknown axis X\n"
            "    1 | [9{X}17]\n"
            "      |    ^\n"
            "hint: did you mean x? the mesh has x, y\n");
}

TEST(LayoutText, unknown_rule) {
  EXPECT_EQ(printed("[9{x}17] padded"),
            "layout:1:10: error: expected the end of the layout, found 'padded'\n"
            "    1 | [9{x}17] padded\n"
            "      |          ^~~~~~\n");
}

TEST(LayoutText, misspelt_words) {
  EXPECT_EQ(printed("[2{y,x}5] nestd"), R"(layout:1:11: error: unknown word 'nestd' after a type
    1 | [2{y,x}5] nestd
      |           ^~~~~
hint: did you mean nested?
)");
  EXPECT_EQ(printed("[8, 4] boxs {[0:8, 0:4]}"), R"(layout:1:8: error: unknown word 'boxs' after a type
    1 | [8, 4] boxs {[0:8, 0:4]}
      |        ^~~~
hint: did you mean boxes?
)");
}

TEST(LayoutText, devices) {
  EXPECT_EQ(printed("[8{x}16] on [0, 1]"),
            "layout:1:1: error: 2 devices for a mesh of 8\n"
            "    1 | [8{x}16] on [0, 1]\n"
            "      | ^~~~~~~~~~~~~~~~~~\n"
            "hint: list the devices of the world in row-major order of the mesh\n");
  EXPECT_EQ(printed("[8{x}16] on [0, 1, 2, 3, 4, 5, 6, 6]"),
            "layout:1:35: error: device 6 is listed twice\n"
            "    1 | [8{x}16] on [0, 1, 2, 3, 4, 5, 6, 6]\n"
            "      |                                   ^\n"
            "hint: each place of the mesh has a device of its own\n");
  EXPECT_EQ(printed("[8{x}16] on [0, 1, 2, 3, 4, 5, 6, 2147483647]"),
            "layout:1:35: error: 2147483647 is no device\n"
            "    1 | [8{x}16] on [0, 1, 2, 3, 4, 5, 6, 2147483647]\n"
            "      |                                   ^~~~~~~~~~\n"
            "hint: the largest world has devices 0 to 2147483646\n");
  EXPECT_EQ(printed("[8{x}16] on [0, -1]"),
            "layout:1:17: error: a device is negative\n"
            "    1 | [8{x}16] on [0, -1]\n"
            "      |                 ^~\n");
  EXPECT_EQ(printed("[8{x}16] on 0"),
            "layout:1:13: error: expected '[' before the devices of a layout, found '0'\n"
            "    1 | [8{x}16] on 0\n"
            "      |             ^\n");
}

TEST(LayoutText, box_outside_the_array) {
  EXPECT_EQ(printed("[8, 4] boxes {[0:4, 0:4]; [4:9, 0:4]}"),
            "layout:1:27: error: [4:9, 0:4] is no box of an array of [8, 4]\n"
            "    1 | [8, 4] boxes {[0:4, 0:4]; [4:9, 0:4]}\n"
            "      |                           ^~~~~~~~~~\n"
            "hint: a box goes from its first elements up to but not including its last, inside the array\n");
  EXPECT_EQ(printed("[8, 4] boxes {[4:0, 0:4]}"),
            "layout:1:15: error: [4:0, 0:4] is no box of an array of [8, 4]\n"
            "    1 | [8, 4] boxes {[4:0, 0:4]}\n"
            "      |               ^~~~~~~~~~\n"
            "hint: a box goes from its first elements up to but not including its last, inside the array\n");
  EXPECT_EQ(printed("[8, 4] boxes {[0:8]}"),
            "layout:1:15: error: [0:8] is no box of an array of [8, 4]\n"
            "    1 | [8, 4] boxes {[0:8]}\n"
            "      |               ^~~~~\n"
            "hint: a box goes from its first elements up to but not including its last, inside the array\n");
}

TEST(LayoutText, boxes_that_overlap_differently_on_replicas) {
  EXPECT_EQ(printed("[8] boxes {[0:4]; [4:8]; [0:5]}"),
            "layout:1:26: error: [0:5] of device 2 and [0:4] of device 0 overlap, and are not the same\n"
            "    1 | [8] boxes {[0:4]; [4:8]; [0:5]}\n"
            "      |                          ^~~~~\n"
            "hint: replicas hold equal boxes; all others are disjoint\n");
  EXPECT_EQ(printed("[8] boxes {[0:5] [3:8]}"),
            "layout:1:18: error: [3:8] of device 0 and [0:5] of device 0 overlap, and are not the same\n"
            "    1 | [8] boxes {[0:5] [3:8]}\n"
            "      |                  ^~~~~\n"
            "hint: replicas hold equal boxes; all others are disjoint\n");
  EXPECT_EQ(printed("[8] boxes {[0:8] [0:8]}"),
            "layout:1:18: error: device 0 holds [0:8] twice\n"
            "    1 | [8] boxes {[0:8] [0:8]}\n"
            "      |                  ^~~~~\n"
            "hint: list each of its boxes once\n");
}

TEST(LayoutText, boxes_with_a_hole) {
  EXPECT_EQ(printed("[8, 4] boxes {[0:8, 0:3]; [0:6, 3:4]}"),
            "layout:1:1: error: no device holds element [6, 3]\n"
            "    1 | [8, 4] boxes {[0:8, 0:3]; [0:6, 3:4]}\n"
            "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "hint: together the boxes make up the array\n");
  EXPECT_EQ(printed("[2, 2] boxes {;}"),
            "layout:1:1: error: no device holds element [0, 0]\n"
            "    1 | [2, 2] boxes {;}\n"
            "      | ^~~~~~~~~~~~~~~~\n"
            "hint: together the boxes make up the array\n");
}

TEST(LayoutText, boxes_of_an_array_that_is_cut) {
  EXPECT_EQ(printed("[4{x}8] boxes {[0:8]}"),
            "layout:1:1: error: listed boxes are of an array that no axis cuts\n"
            "    1 | [4{x}8] boxes {[0:8]}\n"
            "      | ^~~~~~~~~~~~~\n"
            "hint: write its shape alone: [8, 4] boxes {...}\n");
}

TEST(LayoutText, boxes_that_are_none) {
  EXPECT_EQ(printed("[8] boxes {[0-8]}"),
            "layout:1:14: error: expected ':' between the ends of a box, found '-'\n"
            "    1 | [8] boxes {[0-8]}\n"
            "      |              ^\n");
  EXPECT_EQ(printed("[8] boxes [0:8]"),
            "layout:1:11: error: expected '{' before listed boxes, found '['\n"
            "    1 | [8] boxes [0:8]\n"
            "      |           ^\n");
  EXPECT_EQ(printed("[8] boxes {[0:8], [0:8]}"),
            "layout:1:17: error: expected '}' or ';' and the boxes of the next device, found ','\n"
            "    1 | [8] boxes {[0:8], [0:8]}\n"
            "      |                 ^\n");
}

TEST(LayoutText, more_after_it) {
  EXPECT_EQ(printed("[9{x}17] nested on [0, 1, 2, 3, 4, 5, 6, 7] balanced"),
            "layout:1:45: error: expected the end of the layout, found 'balanced'\n"
            "    1 | [9{x}17] nested on [0, 1, 2, 3, 4, 5, 6, 7] balanced\n"
            "      |                                             ^~~~~~~~\n");
}

TEST(LayoutText, view_with_a_star_too_many) {
  EXPECT_EQ(printed("[3*]"),
            "layout:1:4: error: expected a size, found ']'\n"
            "    1 | [3*]\n"
            "      |    ^\n");
}

TEST(LayoutText, array_beyond_63_bits) {
  EXPECT_EQ(printed("[4294967296*4294967296]"),
            "layout:1:1: error: the number of elements of the global array does not fit in 63 bits\n"
            "    1 | [4294967296*4294967296]\n"
            "      | ^~~~~~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(printed("[4294967296, 4294967296] boxes {;}"),
            "layout:1:1: error: the number of elements of the global array does not fit in 63 bits\n"
            "    1 | [4294967296, 4294967296] boxes {;}\n"
            "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
}

}  // namespace
}  // namespace retile
