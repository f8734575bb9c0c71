#include "retile/planner/problem.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"

namespace retile {
namespace {

using ::testing::ElementsAre;

Problem parse(const std::string& text, int line = 1) { return parse_problem(SourceText{"problems.jsonl", text, line}); }

TEST(Problem, is_read_from_a_line) {
  const Problem problem =
      parse(R"({"id": "p1", "mesh": {"a":2,"b":2,"c":2}, "shape": [360,368,320], "src": [[],["c"],[]], )"
            R"("dst": [["c","a"],[],["b"]], "dtype": "f64"})");
  EXPECT_EQ(problem.id(), "p1");
  EXPECT_EQ(to_string(require_typed(problem).mesh()), "{a: 2, b: 2, c: 2}");
  EXPECT_EQ(to_string(problem.source()), "[360, 184{c}368, 320]");
  EXPECT_EQ(to_string(problem.target()), "[90{c,a}360, 368, 160{b}320]");
  EXPECT_EQ(problem.element_type(), ElementType::f64);
}

TEST(Problem, keeps_the_order_of_the_mesh) {
  EXPECT_EQ(to_string(parse(R"({"mesh": {"z":2,"a":3}, "shape": [], "src": [], "dst": []})").source().cuts()->mesh),
            "{z: 2, a: 3}");
}

TEST(Problem, without_id_is_called_by_its_line) {
  const std::string text = R"({"mesh": {"a":2}, "shape": [4], "src": [["a"]], "dst": [[]]})";
  EXPECT_EQ(parse(text).id(), "line-1");
  EXPECT_EQ(parse(text, 17).id(), "line-17");
}

TEST(Problem, without_element_type_is_of_floats) {
  EXPECT_EQ(parse(R"({"mesh": {"a":2}, "shape": [4], "src": [["a"]], "dst": [[]]})").element_type(), ElementType::f32);
}

TEST(Problem, may_name_parts_of_axes) {
  const Problem problem =
      parse(R"({"mesh": {"a":6}, "shape": [6], "src": [["a:(2)3"]], "dst": [["a:(1)2", "a:(2)3"]]})");
  EXPECT_EQ(to_string(problem.source()), "[2{a:(2)3}6]");
  EXPECT_EQ(to_string(problem.target()), "[1{a:(1)2,a:(2)3}6]");
}

TEST(Problem, is_written_as_it_is_read) {
  const std::string text = R"({"format":1,"id":"p1","mesh":{"a":6,"b":2},"shape":[6,4],"src":[["a:(2)3"],["b"]],)"
                           R"("dst":[["a:(1)2","a:(2)3"],[]],"dtype":"f64"})";
  EXPECT_EQ(to_json(parse(text)), text);
}

TEST(Problem, reads_back_equal_whatever_parts_of_axes_it_names) {
  test::RandomProblems random(1);
  const Mesh mesh = parse_mesh(R"(x=12,"an axis"=4,"x:(1)2"=2,"x:(2)2"=3)");
  int parts = 0;
  for (int i = 0; i < 500; ++i) {
    const Problem problem = random.problem(mesh, random.shape(3, {12, 24, 48, 144}));
    const Problem again = parse(to_json(problem));
    EXPECT_EQ(again.id(), problem.id());
    EXPECT_EQ(require_typed(again).mesh(), require_typed(problem).mesh());
    EXPECT_EQ(again.source(), problem.source()) << to_json(problem);
    EXPECT_EQ(again.target(), problem.target()) << to_json(problem);
    parts += to_json(problem).find(":(") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(parts, 400);
}

TEST(Problem, takes_keys_in_any_order_and_ignores_others) {
  const Problem problem =
      parse(R"({"dst": [["a"]], "comment": {"x": [1.5]}, "src": [[]], "shape": [2], "mesh": {"a":2}})");
  EXPECT_EQ(to_string(problem.target()), "[1{a}2]");
}

TEST(Problem, reads_all_of_the_problems_file) {
  std::ifstream file(RETILE_SOURCE_DIR "/tests/data/problems.jsonl");
  ASSERT_TRUE(file);
  int covered = 0;
  for (std::string line; std::getline(file, line); ++covered) {
    const Problem problem = parse(line, covered + 1);
    EXPECT_EQ(require_typed(problem).mesh().device_count(), 8);
    EXPECT_EQ(problem.source().global_shape(), problem.target().global_shape());
    EXPECT_THAT(line, ::testing::HasSubstr('"' + problem.id() + '"'));
  }
  EXPECT_EQ(covered, 500);
}

TEST(Problem, is_between_layouts_of_one_shape) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto fault = [&](const Mesh& source_mesh, const char* source, const char* target) {
    return test::diagnostic_of(
        [&] { return Problem("", parse_layout(source, source_mesh), parse_layout(target, mesh)); });
  };
  EXPECT_EQ(fault(mesh, "[2{a}4]", "[2{b}4]"), "no error");
  EXPECT_EQ(fault(parse_mesh("a=2"), "[2{a}4]", "[2{a}4]"), "no error");
  EXPECT_EQ(fault(mesh, "[2{a}4]", "[2{a}4, 2]"),
            "error: the source has rank 1 and the target rank 2\nhint: a redistribution keeps the global shape\n");
  EXPECT_EQ(fault(mesh, "[2{a}4, 3]", "[4, 2]"),
            "error: the source has global shape [4, 3] and the target [4, 2]\n"
            "hint: a redistribution keeps the global shape\n");
  // The local shapes agree, the global ones do not.
  EXPECT_EQ(fault(mesh, "[2{a}4]", "[2]"),
            "error: the source has global shape [4] and the target [2]\n"
            "hint: a redistribution keeps the global shape\n");
}

TEST(Problem, is_typed_between_types_of_one_mesh) {
  EXPECT_TRUE(typed(test::problem_of("a=2,b=2", "[2{a}4]", "[2{b}4]")));
  EXPECT_FALSE(typed(test::problem_of("a=2,b=2", "[2{a}4]", "[2{b}4] on [3, 2, 1, 0]")));
  EXPECT_EQ(test::diagnostic_of([] { return require_typed(test::problem_of("a=2", "[3{a}5]", "[5]")).mesh(); }),
            "error: [3{a}5] and [5] are not both types of one mesh\n"
            "hint: sizes must divide, and dimensions be cut as a whole\n");
}

TEST(Problem, lives_in_the_smallest_world_that_has_both_ends) {
  const auto devices = [](const char* source_mesh, const char* source, const char* target_mesh, const char* target) {
    return test::problem_of({source_mesh, source, target_mesh, target}).device_count();
  };
  EXPECT_EQ(devices("a=4", "[1{a}4]", "a=2", "[2{a}4]"), 4);
  EXPECT_EQ(devices("a=2", "[2{a}4]", "a=2", "[2{a}4] on [6, 3]"), 7);
  EXPECT_EQ(devices("a=2", "[4] boxes {[0:4]; ; }", "a=2", "[2{a}4]"), 3);
}

TEST(Problem, of_every_form_is_written_as_it_is_read) {
  for (
      const char* text : {
          R"({"format":1,"id":"p","mesh":{"a":2},"shape":[17,23],"src":[["a"],[]],"dst":[[],["a"]],"dtype":"f32"})",
          R"({"format":1,"id":"p","mesh":{"a":2},"shape":[5],"src":[["a"]],"dst":[[]],"uneven":)"
          R"({"src":"balanced","dst":"ceil"},"dtype":"f32"})",
          R"({"format":1,"id":"p","mesh":{"a":2,"b":2},"shape":[5],"src":[["b","a"]],"dst":[["a"]],"uneven":"nested",)"
          R"("dtype":"f32"})",
          R"({"format":1,"id":"p","mesh":{"a":2},"shape":[24],"src":[[],["a"],[]],"src_view":[[3,4,2]],"dst":[["a"]],)"
          R"("dtype":"f32"})",
          R"({"format":1,"id":"p","mesh":{"a":4},"dst_mesh":{"b":2},"shape":[8],"src":[["a"]],"dst":[["b"]],)"
          R"("dst_devices":[5,4],"dtype":"f32"})",
          R"({"format":1,"id":"p","mesh":{"a":2},"shape":[4],"src":[["a"]],"src_devices":[1,0],)"
          R"("dst_boxes":[[[[0],[1]],[[3],[4]]],[[[1],[3]]]],"dtype":"f32"})",
          R"({"format":1,"id":"p","shape":[4],"src_boxes":[[[[0],[4]]],[]],"dst_boxes":[[],[[[0],[4]]]],"dtype":"f32"})",
          R"({"format":1,"id":"p","mesh":{"a":2},"shape":[0,3],"src":[["a"],[]],"dst":[[],["a"]],"dtype":"f32"})",
      }) {
    EXPECT_EQ(to_json(parse(text)), text);
  }
}

TEST(Problem, may_have_a_list_of_axes_for_each_factor_in_one_for_each_dimension) {
  const Problem problem = parse(R"({"mesh": {"a":2,"b":2}, "shape": [24, 5], "src": [[[], ["a"], []], [["b"]]], )"
                                R"("src_view": [[3,4,2],[5]], "dst": [[],[]]})");
  EXPECT_EQ(to_string(problem.source()), "[3*2{a}4*2, 3{b}5]");
}

// A list for each of as many factors as there are dimensions may hold no axes at all.
TEST(Problem, may_have_a_view_of_whole_dimensions_that_are_not_cut) {
  const std::string rest = R"("mesh": {"a":2}, "shape": [6, 5], "src": [["a"], []], "dst_view": [[6], [5]]})";
  for (const char* uncut : {"[[], []]", "[[[]], [[]]]"}) {
    EXPECT_EQ(to_string(parse(fmt::format(R"({{"dst": {}, {})", uncut, rest)).target()), "[6, 5]");
  }
}

TEST(Problem, of_any_layouts_reads_back_equal) {
  test::RandomProblems random(2);
  for (int i = 0; i < 1500; ++i) {
    const Problem problem = test::any_problem(random);
    const Problem again = parse(to_json(problem));
    ASSERT_EQ(to_json(again), to_json(problem));
    ASSERT_TRUE(again.source() == problem.source()) << to_json(problem);
    ASSERT_TRUE(again.target() == problem.target()) << to_json(problem);
    ASSERT_EQ(again.device_count(), problem.device_count());
  }
}

}  // namespace
}  // namespace retile
