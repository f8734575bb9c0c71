#include "retile/types/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>

#include "retile/types/scanning.h"
#include "tests/support/enumerate.h"
#include "tests/support/small_types.h"

namespace retile {
namespace {

using Axes = std::vector<Axis>;
using Parts = std::vector<AxisPart>;

TEST(MeshText, may_be_bare_or_in_braces) {
  const Mesh mesh({{"a", 2}, {"b", 3}});
  for (const char* text :
       {"a=2,b=3", "a:2,b:3", "{a=2,b=3}", "{a:2,b:3}", R"({"a": 2, "b": 3})", R"("a"=2,b:3)", " { a : 2 , b = 3 } ",
        "{a: 2, // rows\n b: 3}", "/* both */ a=2,b=3 //", "\ta=2,\r\nb=3\n"}) {
    EXPECT_EQ(parse_mesh(text), mesh) << text;
  }
}

TEST(MeshText, keeps_the_order_of_axes) { EXPECT_EQ(parse_mesh("b=3,a=2").axes(), (Axes{{"b", 3}, {"a", 2}})); }

TEST(MeshText, has_names_of_any_text_in_quotes) {
  EXPECT_EQ(parse_mesh(R"({"größe, in {}:=": 2, "a\"b\\c": 1, _x9: 4})").axes(),
            (Axes{{"größe, in {}:=", 2}, {"a\"b\\c", 1}, {"_x9", 4}}));
}

TEST(MeshText, prints_in_braces_and_quotes_where_needed) {
  EXPECT_EQ(to_string(parse_mesh("a=2,b=3")), "{a: 2, b: 3}");
  EXPECT_EQ(to_string(Mesh({{"my axis", 2}, {"größe", 1}, {"a\"b\\c", 4}})),
            R"({"my axis": 2, "größe": 1, "a\"b\\c": 4})");
}

TEST(MeshText, scans_the_mesh_that_comes_next) {
  const SourceText source{"text", "{a: 2} [1{a}2]"};
  Scanner scanner(source);
  const Mesh mesh = scan_mesh(scanner);
  EXPECT_EQ(to_string(scan_type(scanner, mesh)), "[1{a}2]");
  EXPECT_TRUE(scanner.at_end());
}

class TypeText : public testing::Test {
 protected:
  DistributedType parse(std::string_view text) const { return parse_type(text, mesh_); }
  Parts axes(std::string_view text) const { return parse(text).dimension(0).axes; }
  std::string printed(std::string_view text) const { return to_string(parse(text)); }

  const Mesh mesh_{{{"x", 4}, {"y", 2}, {"c", 2}, {"six", 6}, {"one", 1}, {"my axis", 12}}};
};

TEST_F(TypeText, dimensions_may_be_cut_or_not) {
  EXPECT_EQ(parse("[]").rank(), 0);
  EXPECT_EQ(parse("[128]").global_shape(), Shape{128});
  const DistributedType type = parse("[8{x}32, 128]");
  EXPECT_EQ(type.global_shape(), (Shape{32, 128}));
  EXPECT_EQ(type.local_shape(), (Shape{8, 128}));
  EXPECT_EQ(parse("[128{}128]"), parse("[128]"));
}

TEST_F(TypeText, names_may_be_bare_or_quoted) {
  EXPECT_EQ(axes("[8{x,y}64]"), (Parts{{0, 1, 4}, {1, 1, 2}}));
  EXPECT_EQ(axes(R"([8{"x","y"}64])"), axes("[8{x,y}64]"));
  EXPECT_EQ(axes(R"([8{"my axis"}96])"), (Parts{{5, 1, 12}}));
}

TEST_F(TypeText, names_may_repeat_their_size) {
  EXPECT_EQ(parse("[4{c:2}8]"), parse("[4{c}8]"));
  EXPECT_EQ(parse(R"([8{x:4,"y":2}64])"), parse("[8{x,y}64]"));
}

TEST_F(TypeText, parts_have_the_size_of_the_more_major_ones_in_parentheses) {
  EXPECT_EQ(axes("[4{six:(2)3}12]"), (Parts{{3, 2, 3}}));
  EXPECT_EQ(axes(R"([4{"my axis":(2)2}8])"), (Parts{{5, 2, 2}}));
  EXPECT_EQ(axes(R"([4{"my axis":(2)6}24])"), (Parts{{5, 2, 6}}));
  EXPECT_EQ(axes("[4{six:(1)6}24]"), axes("[4{six}24]"));
  EXPECT_EQ(axes("[4{one:(1)1}4]"), axes("[4{one}4]"));
}

TEST_F(TypeText, space_and_comments_stand_anywhere_between_tokens) {
  EXPECT_EQ(parse(" [ 4 { six : ( 2 ) 3 , y } 24 , 3 ] "), parse("[4{six:(2)3,y}24, 3]"));
  EXPECT_EQ(parse("[8{x, // rows\n   y}64, /* columns */ 3]"), parse("[8{x,y}64, 3]"));
}

TEST_F(TypeText, prints_names_bare_and_tiles_alone_where_nothing_cuts) {
  EXPECT_EQ(printed(R"([8{"x":4,"y"}64,128{}128])"), "[8{x,y}64, 128]");
  EXPECT_EQ(printed(R"([8{"my axis":12}96])"), R"([8{"my axis"}96])");
  EXPECT_EQ(printed("[]"), "[]");
}

TEST_F(TypeText, prints_neighbouring_parts_merged) {
  EXPECT_EQ(printed("[4{six:(2)3,six:(1)2}24]"), "[4{six}24]");
  EXPECT_EQ(printed(R"([1{"my axis":(4)3,"my axis":(2)2}6])"), R"([1{"my axis":(2)6}6])");
  EXPECT_EQ(printed("[4{six:(1)2,six:(2)3}24]"), "[4{six:(1)2,six:(2)3}24]");
  EXPECT_EQ(printed("[4{six:(2)3,y,six:(1)2}48]"), "[4{six:(2)3,y,six:(1)2}48]");
  EXPECT_EQ(to_string(split_into_primes(parse("[8{x,six}192]"))), "[8{x,six}192]");
}

TEST_F(TypeText, prints_axes_of_size_1) {
  EXPECT_EQ(printed("[4{one}4]"), "[4{one}4]");
  EXPECT_EQ(printed("[4{x,one}16]"), "[4{x,one}16]");
}

TEST_F(TypeText, prints_6_as_2_above_3) {
  const AxisPart major = mesh_.prime_parts()[4];
  const AxisPart minor = mesh_.prime_parts()[5];
  EXPECT_EQ(to_string(mesh_, major), "six:(1)2");
  EXPECT_EQ(to_string(mesh_, minor), "six:(2)3");
  EXPECT_EQ(to_string(mesh_, mesh_.whole(3)), "six");
}

TEST(ShapeText, is_a_list) {
  EXPECT_EQ(to_string(Shape{8, 128}), "[8, 128]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Text, of_every_small_mesh_parses_back) {
  for (const Mesh& mesh : test::all_meshes(36)) ASSERT_EQ(parse_mesh(to_string(mesh)), mesh) << to_string(mesh);
}

TEST(Text, of_every_small_type_parses_back) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    const std::string text = to_string(type);
    const DistributedType parsed = parse_type(text, type.mesh());
    ASSERT_EQ(parsed, type) << text;
    ASSERT_EQ(to_string(parsed), text);
  });
}

TEST(Text, is_the_same_for_every_split_of_a_type) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    ASSERT_EQ(to_string(split_into_primes(type)), to_string(type));
    ASSERT_EQ(to_string(merge_neighbours(type)), to_string(type));
  });
}

// Names with everything that has a meaning in the text, and with characters of one to four bytes.
Mesh arbitrary_names(const Mesh& mesh) {
  static const std::vector<std::string> pieces{"a", "B", "0", "_", " ", "\"", "\\", "{", "}", "[", "]",
                                               ",", ":", "(", ")", "=", "//", "/*", "é", "€", "😀"};
  Axes axes = mesh.axes();
  std::set<std::string> taken;
  for (Axis& axis : axes) {
    do {
      axis.name.clear();
      for (const std::string& piece :
           *rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(pieces)))) {
        axis.name += piece;
      }
    } while (!taken.insert(axis.name).second);
  }
  return Mesh(std::move(axes));
}

RC_GTEST_PROP(Text, of_random_meshes_and_types_parses_back, ()) {
  const Mesh mesh = arbitrary_names(*test::arbitrary_mesh());
  const DistributedType type = *test::arbitrary_type(mesh, test::divisible_shape(mesh, *rc::gen::inRange(0, 5)));
  RC_ASSERT(parse_mesh(to_string(mesh)) == mesh);
  RC_ASSERT(parse_type(to_string(type), mesh) == type);
  for (const AxisPart& part : mesh.prime_parts()) {
    const SourceText source{"part", to_string(mesh, part)};
    Scanner scanner(source);
    RC_ASSERT(scan_axis_part(scanner, mesh) == part);
    RC_ASSERT(scanner.at_end());
  }
}

// Texts made of the tokens of types, most of them at fault.
RC_GTEST_PROP(Text, of_any_tokens_is_a_type_or_at_fault_inside_it, ()) {
  static const std::vector<std::string> tokens{"[", "]",     "{", "}", ",", "4", "8", "x",
                                               "y", "\"x\"", ":", "(", ")", "1", "2", " "};
  const Mesh mesh({{"x", 2}, {"y", 4}});
  std::string text = "[";
  for (const std::string& token : *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(tokens)))
    text += token;
  try {
    const DistributedType type = parse_type(text, mesh);
    RC_ASSERT(parse_type(to_string(type), mesh) == type);
  } catch (const InputError& error) {
    RC_ASSERT(error.diagnostic().range.begin <= text.size());
    RC_ASSERT(error.diagnostic().line == 1);
  }
}

}  // namespace
}  // namespace retile
