#include "retile/drawing/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "retile/base/utf8.h"
#include "tests/drawing/drawings.h"

namespace retile::test {
namespace {

using drawing::Scene;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Text, draws_tiles_with_lines_and_numbers) {
  EXPECT_EQ(drawing::to_text(scene_of("x=2,y=2", "[2{x}4, 2{y}4]", "[4, 2{y}4]"), plain, std::nullopt),
            R"(mesh {x: 2, y: 2}  // planner wide
[2{x}4, 2{y}4]  // 16 bytes per device
  rows dimension 0 (4), columns dimension 1 (4)
  ┌───────────────┬───────────────┐
  │       0       │       1       │
  │               │               │
  ├───────────────┼───────────────┤
  │       2       │       3       │
  │               │               │
  └───────────────┴───────────────┘
    -> allgather(0; 2)  // cost 8
       In 2 groups of 2, devices gather each other's tiles: each gets 16 bytes and then holds 32 bytes.
       Device 0 gets [2:4, 0:2] from 2.
[4, 2{y}4]  // 32 bytes per device
  rows dimension 0 (4), columns dimension 1 (4)
  ┌───────────────┬───────────────┐
  │               │               │
  │      0 2      │      1 3      │
  │               │               │
  │               │               │
  └───────────────┴───────────────┘
// cost 8 (paper, optimal over all plans), floor 4
// peak 32 bytes per device, no more than the larger of source and target
)");
}

TEST(Text, parts_no_tile_that_its_neighbours_part) {
  const Scene scene =
      scene_of(problem_of({"x=3", "[4, 4] boxes {[0:4, 0:2]; [0:2, 2:4]; [2:4, 2:4]}", "x=3", "[4, 4]"}));
  EXPECT_THAT(drawing::to_text(scene, plain, std::nullopt), HasSubstr(R"(
  ┌───────────────┬───────────────┐
  │       0       │       1       │
  │               │               │
  │               ├───────────────┤
  │               │       2       │
  │               │               │
  └───────────────┴───────────────┘
)"));
}

TEST(Text, draws_layers_beside_each_other) {
  EXPECT_THAT(drawing::to_text(scene_of("x=2", "[2] sum {x}", "[1{x}2]"), plain, 0), HasSubstr(R"(
  rows parts along x (2), columns dimension 1 (2)
)"));
  EXPECT_THAT(drawing::to_text(scene_of("x=2", "[2, 4] sum {x}", "[1{x}2, 4]"), plain, 0), HasSubstr(R"(
  layers parts along x (2), rows dimension 1 (2), columns dimension 2 (4)
  parts along x at 0                 parts along x at 1
  ┌───────────────────────────────┐  ┌───────────────────────────────┐
)"));
}

TEST(Text, forgets_the_dimensions_of_parts_once_they_are_added_up) {
  const Scene scene = scene_of("x=2", "[8] sum {x}", "[8]");
  EXPECT_THAT(drawing::to_text(scene, plain, 0), HasSubstr("Device 0 gets [1:2, 0:4] from 1.\n"));
  EXPECT_THAT(drawing::to_text(scene, plain, 2), HasSubstr("Device 0 gets [4:8] from 1.\n"));
}

TEST(Text, folds_many_tiles_into_lines_of_a_hundred) {
  const std::string text =
      drawing::to_text(scene_of("x=32,y=32", "[32{x}1024, 32{y}1024]", "[1{x,y}1024, 1024]"), plain, std::nullopt);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_picture = line.starts_with("  │");
    EXPECT_LE(is_picture ? count_characters(line) : 0, 102) << line;
  }
  EXPECT_THAT(text, HasSubstr("│0 +3 │2 +3 │"));
  EXPECT_THAT(text, HasSubstr("│128+ │130+ │"));
}

TEST(Text, is_coloured_where_asked_for) {
  const Scene scene = scene_of("x=2", "[2{x}4]", "[4]");
  EXPECT_THAT(drawing::to_text(scene, plain, std::nullopt), Not(HasSubstr("\033")));
  EXPECT_THAT(drawing::to_text(scene, colored, std::nullopt),
              HasSubstr("\033[48;2;119;170;221;30m       0       \033[0m│"));
}

TEST(Text, colours_a_tile_across_the_lines_of_others) {
  const char* source = "[6, 6] boxes {[0:4, 0:4]; [0:2, 4:6]; [2:6, 4:6]; [4:6, 0:2]; [4:6, 2:4]}";
  const std::string text =
      drawing::to_text(scene_of(problem_of({"x=5", source, "x=5", "[6, 6]"})), colored, std::nullopt);
  EXPECT_THAT(text, HasSubstr("  │\033[48;2;119;170;221;30m                   \033[0m├─────────┤\n"));
}

TEST(Text, cannot_be_steered_by_names) {
  const Problem problem =
      parse_problem({"line", R"({"id": "\u001b[31m", "mesh": {"x": 2}, "shape": [4], "src": [["x"]], "dst": [[]]})"});
  EXPECT_THAT(drawing::to_text(scene_of(problem), plain, std::nullopt), Not(HasSubstr("\033")));
}

TEST(Text, of_any_problem_is_drawn) {
  RandomProblems random(13);
  for (int i = 0; i < 200; ++i) {
    const Scene scene = scene_of(any_problem(random));
    EXPECT_THAT(drawing::to_text(scene, plain, std::nullopt), HasSubstr("// peak "));
  }
}

}  // namespace
}  // namespace retile::test
