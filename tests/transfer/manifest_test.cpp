#include "retile/transfer/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace retile::transfer {
namespace {

std::vector<SourceText> lines_of(const std::vector<std::string>& texts) {
  std::vector<SourceText> lines;
  for (const std::string& text : texts) lines.push_back({"m.jsonl", text, static_cast<int>(lines.size()) + 1});
  return lines;
}

std::string faults_of(const std::vector<std::string>& texts) {
  try {
    parse_manifest(lines_of(texts));
  } catch (const InputErrors& errors) {
    std::string text;
    for (const Diagnostic& diagnostic : errors.diagnostics()) text += to_string(diagnostic);
    return text;
  }
  return "no error";
}

constexpr const char* rest = R"("mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]})";

std::string named(const std::string& name) { return "{\"name\": \"" + name + "\", " + rest; }

TEST(Manifest, has_each_problem_once) {
  const Manifest manifest = parse_manifest(lines_of({
      named("a"),
      named("b"),
      R"({"mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]], "name": "c", "id": "another"})",
      R"({"name": "d", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [["x"], []]})",
      R"({"name": "e\u0066", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [["x"], []]})",
  }));
  ASSERT_EQ(manifest.arrays.size(), 5U);
  EXPECT_EQ(manifest.arrays[2].name, "c");
  EXPECT_EQ(manifest.arrays[4].name, "ef");
  std::vector<std::size_t> problems;
  for (const NamedArray& array : manifest.arrays) problems.push_back(array.problem);
  EXPECT_THAT(problems, ::testing::ElementsAre(0, 0, 0, 1, 1));
  EXPECT_EQ(to_string(manifest.problems[1]), "f32 on mesh {x: 2} from [4{x}8, 4] to [4{x}8, 4]");
}

TEST(Manifest, takes_no_line_for_another_that_only_looks_alike) {
  // The name ends in the middle of what would be the rest of the line before.
  const std::string tricky = "{\"name\": \"a\\\", \", " + std::string(rest);
  const Manifest manifest = parse_manifest(lines_of({named("a"), tricky}));
  EXPECT_EQ(manifest.arrays[1].name, "a\", ");
}

TEST(Manifest, lists_all_that_is_wrong) {
  EXPECT_EQ(faults_of({
                std::string("{") + rest,
                named("a"),
                R"({"name": "b", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"]], "dst": [[], ["x"]]})",
                named("a"),
                R"({"name": "c", "shape": [4], "src_boxes": [[[[0], [3]]]], "dst_boxes": [[[[0], [4]]]]})",
                R"({"name": "d", "mesh": {"x": 2}, "shape": [8], "src": [[]], "src_sum": ["x"], "dst": [["x"]]})",
                R"({"mesh": {"x": 2}, "shape": [8], "src": [["y"]], "dst": [["x"]]})",
            }),
            R"(m.jsonl:1:1: error: the array has no "name"
    1 | {"mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
m.jsonl:3:57: error: "src" is of rank 1, and the shape of rank 2
    3 | {"name": "b", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"]], "dst": [[], ["x"]]}
      |                                                         ^~~~~~~
hint: give one list of axes per dimension, [] where it is not cut
m.jsonl:4:10: error: two arrays are called "a"
    4 | {"name": "a", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]}
      |          ^~~
hint: each array has a name of its own
m.jsonl:2:10: note: the first one is here
    2 | {"name": "a", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]}
      |          ^~~
m.jsonl:5:42: error: no device holds element [3]
    5 | {"name": "c", "shape": [4], "src_boxes": [[[[0], [3]]]], "dst_boxes": [[[[0], [4]]]]}
      |                                          ^~~~~~~~~~~~~~
hint: together the boxes make up the array
m.jsonl:6:71: error: a transfer moves arrays, and this one is a sum
    6 | {"name": "d", "mesh": {"x": 2}, "shape": [8], "src": [[]], "src_sum": ["x"], "dst": [["x"]]}
      |                                                                       ^~~~~
hint: redistribute it first: retile run reduces sums
m.jsonl:7:1: error: the array has no "name"
    7 | {"mesh": {"x": 2}, "shape": [8], "src": [["y"]], "dst": [["x"]]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
m.jsonl:7:43: error: unknown axis y
    7 | {"mesh": {"x": 2}, "shape": [8], "src": [["y"]], "dst": [["x"]]}
      |                                           ^~~
hint: the mesh has x
)");
}

TEST(Manifest, of_problems_refuses_what_its_text_would) {
  const Problem problem = parse_problem(SourceText{"p", std::string("{") + rest});
  try {
    make_manifest({{"a", problem}, {"a", problem}});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "two arrays are called \"a\"");
  }
}

}  // namespace
}  // namespace retile::transfer
