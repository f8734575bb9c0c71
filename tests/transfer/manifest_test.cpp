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

TEST(Manifest, lists_each_fault_of_a_line_and_none_that_follows_from_another) {
  EXPECT_EQ(faults_of({R"({"name": "a", "mesh": {"x": 4}, "shape": [8, -8], "src": [["q"], []], "dst": [[], ["w"]]})"}),
            R"(m.jsonl:1:46: error: "shape"[1] is negative
    1 | {"name": "a", "mesh": {"x": 4}, "shape": [8, -8], "src": [["q"], []], "dst": [[], ["w"]]}
      |                                              ^~
m.jsonl:1:60: error: unknown axis q
    1 | {"name": "a", "mesh": {"x": 4}, "shape": [8, -8], "src": [["q"], []], "dst": [[], ["w"]]}
      |                                                            ^~~
hint: the mesh has x
m.jsonl:1:84: error: unknown axis w
    1 | {"name": "a", "mesh": {"x": 4}, "shape": [8, -8], "src": [["q"], []], "dst": [[], ["w"]]}
      |                                                                                    ^~~
hint: the mesh has x
)");
  EXPECT_EQ(
      faults_of({
          named("b"),
          R"({"name": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": "f"})",
      }),
      R"(m.jsonl:2:10: error: two arrays are called "b"
    2 | {"name": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": ...
      |          ^~~
hint: each array has a name of its own
m.jsonl:1:10: note: the first one is here
    1 | {"name": "b", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]}
      |          ^~~
m.jsonl:2:29: error: "x" must be an integer, not 4.5
    2 | {"name": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": ...
      |                             ^~~
hint: write it without a fraction or an exponent
m.jsonl:2:48: error: "shape"[1] must be an integer, not 8.0
    2 | {"name": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": ...
      |                                                ^~~
hint: write it without a fraction or an exponent
m.jsonl:2:61: error: "src" is of rank 1, and the shape of rank 2
    2 | ...me": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": "f"}
      |                                                            ^~~~~~~
hint: give one list of axes per dimension, [] where it is not cut
m.jsonl:2:79: error: "dst"[0][0] must be a string, not an integer
    2 | ...me": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": "f"}
      |                                                                              ^
m.jsonl:2:97: error: unknown element type "f"
    2 | ...me": "b", "mesh": {"x": 4.5}, "shape": [8, 8.0], "src": [["x"]], "dst": [[1], []], "dtype": "f"}
      |                                                                                                ^~~
hint: did you mean f16? use one of bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64 c64 c128
)");
}

TEST(Manifest, refuses_keys_that_it_does_not_know) {
  EXPECT_EQ(
      faults_of({R"({"name": "a", "dtpye": "bf16", "mesh": {"x": 2}, "shpae": [8], "src": [["x"]], "dst": [[]]})"}),
      R"(m.jsonl:1:15: error: unknown key "dtpye"
    1 | {"name": "a", "dtpye": "bf16", "mesh": {"x": 2}, "shpae": [8], "src": [["x"]], "dst": [[]]}
      |               ^~~~~~~
hint: did you mean "dtype"?
m.jsonl:1:50: error: unknown key "shpae"
    1 | {"name": "a", "dtpye": "bf16", "mesh": {"x": 2}, "shpae": [8], "src": [["x"]], "dst": [[]]}
      |                                                  ^~~~~~~
hint: did you mean "shape"?
)");
  EXPECT_EQ(faults_of({R"({"name": "a", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]], "owner": "me"})"}),
            R"(m.jsonl:1:76: error: unknown key "owner"
    1 | {"name": "a", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]], "owner": "me"}
      |                                                                            ^~~~~~~
hint: there are name, src_file, dst_file, format, id, mesh, dst_mesh, shape, src, dst, src_view, dst_view, src_sum, dst_sum, src_devices, dst_devices, src_boxes, dst_boxes, src_cyclic, dst_cyclic, src_tiles, dst_tiles, src_halo, dst_halo, src_wrap, dst_wrap, src_order, dst_order, uneven, reduce, dtype
)");
  EXPECT_EQ(
      faults_of(
          {R"({"name": "a", "mesh": {"x": 2}, "shape": [9], "src": [["x"]], "dst": [[]], "uneven": {"scr": "nested"}})"}),
      R"(m.jsonl:1:87: error: unknown key "scr"
    1 | ...: "a", "mesh": {"x": 2}, "shape": [9], "src": [["x"]], "dst": [[]], "uneven": {"scr": "nested"}}
      |                                                                                   ^~~~~
hint: did you mean "src"?
)");
}

TEST(Manifest, takes_all_that_a_problem_has) {
  const Manifest manifest = parse_manifest(lines_of({
      R"({"format": 1, "name": "a", "id": "i", "mesh": {"x": 2}, "dst_mesh": {"y": 2}, "shape": [8], "src": [["x"], []], )"
      R"("src_view": [[2, 4]], "dst": [["y"], []], "dst_view": [[4, 2]], "src_devices": [0, 1], "dst_devices": [1, 0], )"
      R"("uneven": {"src": "nested", "dst": "balanced"}, "src_sum": [], "dst_sum": [], "reduce": "max", "dtype": "i8"})",
      R"({"name": "b", "shape": [4], "src_boxes": [[[[0], [4]]]], "dst_boxes": [[[[0], [4]]]]})",
      R"({"name": "c", "mesh": {"x": 2}, "shape": [9], "src": [["x"]], "src_cyclic": [2], "src_tiles": [null], )"
      R"("src_order": [0], "dst": [["x"]], "dst_cyclic": [null], "dst_tiles": [[5, 4]], "dst_halo": [[1, 1]], )"
      R"("dst_wrap": [true], "dst_order": [0]})",
  }));
  EXPECT_EQ(manifest.problems.size(), 3U);
}

TEST(Manifest, shows_what_is_wrong_with_a_text) {
  EXPECT_EQ(
      faults_of({
          R"x({"name": "a", "mesh": {"x": 2}, "shape": [8], "src": "P('y')", "dst": "[9]"})x",
          R"x({"name": "b", "mesh": {"x": 2}, "shape": [8], "src": "P('x')", "src_devices": [1, 0], "dst": [[]]})x",
          R"x({"name": "c", "mesh": {"x": 2}, "shape": [9], "src": [["x"]], "dst": "P()", "uneven": "nested"})x",
          R"x({"name": "d", "mesh": {"x": 2}, "shape": [8], "src": "Partial(sum)", "dst": [[]]})x",
          R"x({"name": "e", "shape": [8], "src": "P('x')", "dst": "{devices=[2]<=[2]}"})x",
          R"x({"name": "f", "mesh": "Mesh('x': 0)", "shape": [-8], "src": "P('x')", "dst": "P()"})x",
      }),
      R"x(m.jsonl:1:57: error: unknown axis y
    1 | {"name": "a", "mesh": {"x": 2}, "shape": [8], "src": "P('y')", "dst": "[9]"}
      |                                                         ^~~
hint: the mesh has x
m.jsonl:1:71: error: "dst" is of shape [9], and "shape" is another one
    1 | {"name": "a", "mesh": {"x": 2}, "shape": [8], "src": "P('y')", "dst": "[9]"}
      |                                                                       ^~~~~
m.jsonl:2:79: error: "src_devices" goes with lists of axes, and "src" is a text
    2 | ...name": "b", "mesh": {"x": 2}, "shape": [8], "src": "P('x')", "src_devices": [1, 0], "dst": [[]]}
      |                                                                                ^~~~~~
hint: the text says it all: devices stand in a mesh's text, as in DeviceMesh([4, 5], mesh_dim_names=('x',))
m.jsonl:3:87: error: "uneven" goes with lists of axes, and "dst" is a text
    3 | {"name": "c", "mesh": {"x": 2}, "shape": [9], "src": [["x"]], "dst": "P()", "uneven": "nested"}
      |                                                                                       ^~~~~~~~
hint: the text says it all: devices stand in a mesh's text, as in DeviceMesh([4, 5], mesh_dim_names=('x',))
m.jsonl:4:54: error: a transfer moves arrays, and this one is a sum
    4 | {"name": "d", "mesh": {"x": 2}, "shape": [8], "src": "Partial(sum)", "dst": [[]]}
      |                                                      ^~~~~~~~~~~~~~
hint: redistribute it first: retile run reduces sums
m.jsonl:5:37: error: nothing says which mesh this is of
    5 | {"name": "e", "shape": [8], "src": "P('x')", "dst": "{devices=[2]<=[2]}"}
      |                                     ^~~~~~
hint: give one, as in --mesh "Mesh('x': 2, 'y': 4)" or --mesh x=2,y=4
m.jsonl:6:34: error: the size of an axis is 0
    6 | {"name": "f", "mesh": "Mesh('x': 0)", "shape": [-8], "src": "P('x')", "dst": "P()"}
      |                                  ^
hint: sizes start at 1
)x");
}

TEST(Manifest, has_names_and_objects) {
  EXPECT_EQ(faults_of({named(""), "[" + named("a") + "]"}),
            R"(m.jsonl:1:10: error: an array's name is empty
    1 | {"name": "", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]}
      |          ^~
m.jsonl:2:1: error: a line of a manifest must be an object
    2 | [{"name": "a", "mesh": {"x": 2}, "shape": [8, 4], "src": [["x"], []], "dst": [[], ["x"]]}]
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
hint: one array a line: {"name": …, "mesh": …, "shape": …, "src": …, "dst": …}
)");
  // The second of two lines that are alike but for their names.
  EXPECT_THAT(faults_of({named("a"), named("")}),
              ::testing::StartsWith("m.jsonl:2:10: error: an array's name is empty\n"));
}

TEST(Manifest, counts_the_lines_at_fault_beyond_the_first_twenty) {
  EXPECT_THAT(
      faults_of(std::vector<std::string>(21, "7")),
      ::testing::AllOf(::testing::HasSubstr("m.jsonl:20:1: error: "), ::testing::Not(::testing::HasSubstr(":21:")),
                       ::testing::EndsWith("\nerror: 1 more line is at fault\n")));
  EXPECT_THAT(faults_of(std::vector<std::string>(1022, "7")),
              ::testing::EndsWith("\nerror: 1,002 more lines are at fault\n"));
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
