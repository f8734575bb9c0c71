#include "retile/drawing/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/drawing/colors.h"
#include "retile/drawing/picture.h"
#include "tests/drawing/drawings.h"

namespace retile::test {
namespace {

using drawing::Picture;
using drawing::Rectangle;
using drawing::Scene;
using ::testing::HasSubstr;
using ::testing::Not;

Problem hostile_problem() {
  return parse_problem({"line", R"x({"id": "</script><script>alert(1)</script>\u0007", "mesh": {"<b>&\"'": 2},)x"
                                R"x( "shape": [4, 4], "src": [["<b>&\"'"], []], "dst": [[], ["<b>&\"'"]]})x"});
}

TEST(Picture, places_boxes_in_rows_and_columns) {
  const Scene scene = scene_of("x=2,y=2", "[4{x}8, 4{y}8]", "[8, 8]");
  const Picture picture = make_picture(scene, scene.source(), 210);
  EXPECT_EQ(picture.drawn.rows, 0);
  EXPECT_EQ(picture.drawn.columns, 1);
  EXPECT_EQ(picture.drawn.layers, -1);
  ASSERT_EQ(picture.boxes.size(), 4U);
  EXPECT_EQ(picture.boxes[0].place, (Rectangle{0, 0, 100, 100}));
  EXPECT_EQ(picture.boxes[1].place, (Rectangle{100, 0, 100, 100}));
  EXPECT_EQ(picture.boxes[2].place, (Rectangle{0, 100, 100, 100}));
}

TEST(Picture, has_a_slab_for_each_interval_of_the_layers) {
  const Scene scene = scene_of("x=2,y=2", "[4{x}8, 8, 4{y}8]", "[8, 4{x}8, 4{y}8]");
  EXPECT_THAT(scene.view.dimensions, ::testing::ElementsAre(0, 1, 2));
  const Picture before = make_picture(scene, scene.source(), 400);
  ASSERT_EQ(before.layers.size(), 2U);
  EXPECT_EQ(before.layers[1].interval, (Interval{4, 8}));
  EXPECT_EQ(before.boxes.size(), 4U);
  const Picture after = make_picture(scene, scene.target(), 400);
  ASSERT_EQ(after.layers.size(), 1U);
  EXPECT_GT(after.layers[0].depth, before.layers[0].depth);
}

TEST(Picture, leaves_the_square_to_nobody_else) {
  RandomProblems random(7);
  for (int i = 0; i < 200; ++i) {
    const Scene scene = scene_of(any_problem(random));
    for (const drawing::SceneFrame& frame : scene.frames) {
      const Picture picture = make_picture(scene, frame, 400);
      EXPECT_LE(picture.width, 400);
      EXPECT_LE(picture.height, 400);
      for (const drawing::PlacedBox& placed : picture.boxes) {
        EXPECT_GE(placed.place.x, 0);
        EXPECT_GE(placed.place.y, 0);
        EXPECT_LE(placed.place.x + placed.place.width, picture.width + 1e-6);
        EXPECT_LE(placed.place.y + placed.place.height, picture.height + 1e-6);
      }
    }
  }
}

TEST(Colors, are_different_and_light_enough_for_black_letters) {
  for (const std::int64_t devices : {1, 8, 9, 64, 1024}) {
    std::vector<std::string> seen;
    for (Device device = 0; device < devices; ++device) {
      const drawing::Color color = drawing::color_of(device, devices);
      EXPECT_GT(299 * color.red + 587 * color.green + 114 * color.blue, 110 * 1000) << device << " of " << devices;
      seen.push_back(to_hex(color));
    }
    std::sort(seen.begin(), seen.end());
    const auto distinct = std::unique(seen.begin(), seen.end()) - seen.begin();
    EXPECT_GE(distinct, std::min<std::int64_t>(devices, 64)) << devices;
  }
  EXPECT_EQ(to_hex(drawing::color_of(0, 8)), "#77aadd");
}

TEST(Svg, shows_every_tile_with_its_device) {
  const std::string svg = drawing::to_svg({scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]")}, std::nullopt);
  EXPECT_EQ(find_markup_fault(svg), std::nullopt);
  EXPECT_EQ(count_of_part(svg, "class=\"held\""), 8);
  for (const char* number : {">0<", ">1<", ">2<", ">3<"}) EXPECT_EQ(count_of_part(svg, number), 2) << number;
  EXPECT_THAT(svg, HasSubstr("1 alltoall(0 -&gt; 1; 4)"));
  EXPECT_THAT(svg, HasSubstr("cost 16, 48 bytes received"));
  EXPECT_THAT(
      svg,
      HasSubstr(
          "retile, planner wide: 1 step, cost 16 (paper, optimal over all plans), floor 12; peak 64 bytes per device"));
}

TEST(Svg, of_a_step_shows_what_a_device_gets) {
  const Scene scene = scene_of("x=4", "[2{x}8, 8]", "[8, 2{x}8]");
  const std::string svg = drawing::to_svg({scene}, 0);
  EXPECT_EQ(find_markup_fault(svg), std::nullopt);
  EXPECT_THAT(svg, HasSubstr("Lines: what device 0 gets, on the right in the colours of those that send it."));
  EXPECT_EQ(count_of_part(svg, "class=\"flow\""), 3);
  EXPECT_EQ(count_of_part(svg, "class=\"piece\""), 3);
  EXPECT_EQ(count_of_part(svg, "class=\"held\""), 8 + 4);  // three pieces, and what it keeps
}

TEST(Svg, lists_replicas_as_far_as_there_is_room) {
  const std::string svg = drawing::to_svg({scene_of("x=32", "[32]", "[1{x}32]")}, std::nullopt);
  EXPECT_THAT(svg, HasSubstr(">0 1 2 3 4 5 6 7 8 9 10 11 +20<"));
}

TEST(Svg, escapes_what_users_write) {
  const std::string svg = drawing::to_svg({scene_of(hostile_problem())}, std::nullopt);
  EXPECT_EQ(find_markup_fault(svg), std::nullopt);
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("<b>")));
  EXPECT_THAT(svg, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt; : "));
}

TEST(Svg, of_any_problem_is_well_formed) {
  RandomProblems random(11);
  for (int i = 0; i < 100; ++i) {
    const Scene scene = scene_of(any_problem(random));
    EXPECT_EQ(find_markup_fault(drawing::to_svg({scene}, std::nullopt)), std::nullopt);
    for (std::size_t step = 0; step < scene.steps.size(); ++step) {
      EXPECT_EQ(find_markup_fault(drawing::to_svg({scene}, step)), std::nullopt);
    }
  }
}

TEST(MarkupChecker, finds_what_is_not_well_formed) {
  EXPECT_EQ(find_markup_fault("<a b=\"c\"><d/>&amp;</a>"), std::nullopt);
  for (const char* text : {"<a>", "</a>", "<a></b>", "a & b", "<a b=c/>", "a < b", "a > b", "<a b=\"<\"/>"}) {
    EXPECT_NE(find_markup_fault(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace retile::test
