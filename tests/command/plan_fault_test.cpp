// Problems that are at fault: where, in which words, and that nothing else is printed.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

ProcessResult plan_problems(const std::string& problems) {
  return run_retile({"plan", "--planner", "gather-slice", "--problems", "-"}, problems);
}

// --- In arguments.

struct ArgumentCase {
  std::string mesh;
  std::string source;
  std::string target;
  std::string diagnostic;
};

void expect_argument_faults(const std::vector<ArgumentCase>& cases) {
  for (const ArgumentCase& fault : cases) {
    const ProcessResult expected = input_fault(fault.diagnostic);
    EXPECT_EQ(run_retile({"plan", "--mesh", fault.mesh, fault.source, fault.target}), expected);
    EXPECT_EQ(run_retile({"run", "--mesh", fault.mesh, fault.source, fault.target, "--json"}), expected);
  }
}

// A case is read best as it is printed.
// clang-format off
TEST(PlanArgumentFault, axes) {
  expect_argument_faults({
{"devices=32", "[8{device}256, 1024]", "[256, 1024]", R"(argument SRC:1:4: error: unknown axis device
    1 | [8{device}256, 1024]
      |    ^~~~~~
hint: did you mean devices? the mesh has devices
)"},
{"rows=2,columns=2", "[4{ROWS}8]", "[8]", R"(argument SRC:1:4: error: unknown axis ROWS
    1 | [4{ROWS}8]
      |    ^~~~
hint: did you mean rows? the mesh has rows, columns
)"},
{"x=4", "[2{y}8]", "[8]", R"(argument SRC:1:4: error: unknown axis y
    1 | [2{y}8]
      |    ^
hint: the mesh has x
)"},
{"x=4", "[2{x,x}32]", "[32]", R"(argument SRC:1:6: error: axis x is used twice
    1 | [2{x,x}32]
      |      ^
hint: an axis cuts at most one dimension, once
)"},
{"x=4", "[2{x}8, 2{x}8]", "[8, 8]", R"(argument SRC:1:11: error: axis x is used twice
    1 | [2{x}8, 2{x}8]
      |           ^
hint: an axis cuts at most one dimension, once
)"},
{"x=4", "[2{x:3}8]", "[8]", R"(argument SRC:1:4: error: axis x has size 4, not 3
    1 | [2{x:3}8]
      |    ^~~
)"},
{"x=6", "[2{x:(3)2}4]", "[4]", R"(argument SRC:1:4: error: x:(3)2 is no part of axis x
    1 | [2{x:(3)2}4]
      |    ^~~~~~
hint: from major to minor its parts are x:(1)2, x:(2)3; neighbours may be joined
)"},
{"x=4", "[8]", "[2{}8]", R"(argument DST:1:2: error: a size of 8 cannot be cut into 1 tile of 2
    1 | [2{}8]
      |  ^~~~
hint: for 8 in all, the largest tile is 8
)"},
  });
}

TEST(PlanArgumentFault, sizes) {
  expect_argument_faults({
{"x=4", "[3{x}8]", "[8]", R"(argument SRC:1:2: error: a size of 8 cannot be cut into 4 tiles of 3
    1 | [3{x}8]
      |  ^~~~~
hint: for 8 in all, the largest tile is 2
)"},
{"x=4", "[2{x}9]", "[9]", R"(argument SRC:1:2: error: a size of 9 cannot be cut into 4 tiles of 2
    1 | [2{x}9]
      |  ^~~~~
hint: for 9 in all, the largest tile is 3
)"},
{"x=4", "[0]", "[8]", R"(argument DST:1:1: error: the source has global shape [0] and the target [8]
    1 | [8]
      | ^~~
hint: a redistribution keeps the global shape
)"},
{"x=4", "[-2{x}8]", "[8]", R"(argument SRC:1:2: error: a size is negative
    1 | [-2{x}8]
      |  ^~
)"},
{"x=4", "[8]", "[9223372036854775808]", R"(argument DST:1:2: error: a size does not fit in 63 bits
    1 | [9223372036854775808]
      |  ^~~~~~~~~~~~~~~~~~~
hint: the largest size is 9223372036854775807
)"},
{"x=4", "[9223372036854775807{x}8]", "[8]", R"(argument SRC:1:2: error: a size of 8 cannot be cut into 4 tiles of 9223372036854775807
    1 | [9223372036854775807{x}8]
      |  ^~~~~~~~~~~~~~~~~~~~~~~
hint: for 8 in all, the largest tile is 2
)"},
{"x=4", "[3037000500, 3037000500]", "[8]", R"(argument SRC:1:1: error: the number of elements of the global array does not fit in 63 bits
    1 | [3037000500, 3037000500]
      | ^~~~~~~~~~~~~~~~~~~~~~~~
)"},
  });
}

TEST(PlanArgumentFault, shapes) {
  expect_argument_faults({
{"x=4", "[2{x}8]", "[16]", R"(argument DST:1:1: error: the source has global shape [8] and the target [16]
    1 | [16]
      | ^~~~
hint: a redistribution keeps the global shape
)"},
{"x=4", "[8]", "[8, 8]", R"(argument DST:1:1: error: the source has rank 1 and the target rank 2
    1 | [8, 8]
      | ^~~~~~
hint: a redistribution keeps the global shape
)"},
  });
}

TEST(PlanArgumentFault, meshes) {
  expect_argument_faults({
{"{}", "[8]", "[4{x}8]", R"(argument DST:1:4: error: unknown axis x
    1 | [4{x}8]
      |    ^
hint: the mesh has no axes
)"},
{"x=4,y=2,x=4", "[8]", "[8]", R"(argument --mesh:1:9: error: the mesh has two axes named x
    1 | x=4,y=2,x=4
      |         ^~~
)"},
{"x=0", "[8]", "[8]", R"(argument --mesh:1:3: error: the size of axis x is 0
    1 | x=0
      |   ^
hint: sizes start at 1
)"},
{"x=-4", "[8]", "[8]", R"(argument --mesh:1:3: error: the size of axis x is negative
    1 | x=-4
      |   ^~
)"},
{"x=99999999999999999999", "[8]", "[8]", R"(argument --mesh:1:3: error: the size of axis x does not fit in 63 bits
    1 | x=99999999999999999999
      |   ^~~~~~~~~~~~~~~~~~~~
hint: the largest size is 9223372036854775807
)"},
{"x=2147483648", "[8]", "[8]", R"(argument --mesh:1:1: error: the mesh has too many devices
    1 | x=2147483648
      | ^~~~~~~~~~~~
hint: at most 2147483647 fit
)"},
{"x=65536,y=65536", "[8]", "[8]", R"(argument --mesh:1:9: error: the mesh has too many devices
    1 | x=65536,y=65536
      |         ^~~~~~~
hint: at most 2147483647 fit
)"},
{"x", "[8]", "[8]", R"(argument --mesh:1:2: error: expected '=' or ':' between an axis and its size, found the end
    1 | x
      |  ^
)"},
{"x=4,", "[8]", "[8]", R"(argument --mesh:1:5: error: expected an axis name, found the end
    1 | x=4,
      |     ^
hint: names are letters, digits and _, or any text in double quotes
)"},
{"x=4 y=2", "[8]", "[8]", R"(argument --mesh:1:5: error: expected the end of the mesh, or ',' and another axis, found 'y'
    1 | x=4 y=2
      |     ^
)"},
{"x=4;y=2", "[8]", "[8]", R"(argument --mesh:1:4: error: expected the end of the mesh, or ',' and another axis, found ';'
    1 | x=4;y=2
      |    ^
)"},
  });
}

TEST(PlanArgumentFault, syntax) {
  expect_argument_faults({
{"x=4", "", "[8]", R"(argument SRC:1:1: error: expected '[' at the start of a type, found the end
    1 | 
      | ^
)"},
{"x=4", "[8]", "", R"(argument DST:1:1: error: expected '[' at the start of a type, found the end
    1 | 
      | ^
)"},
{"x=4", "8", "[8]", R"(argument SRC:1:1: error: expected '[' at the start of a type, found '8'
    1 | 8
      | ^
)"},
{"x=4", "[8", "[8]", R"(argument SRC:1:3: error: expected ']' or ',' after a dimension, found the end
    1 | [8
      |   ^
)"},
{"x=4", "[8]]", "[8]", R"(argument SRC:1:4: error: expected the end of the layout, found ']'
    1 | [8]]
      |    ^
)"},
{"x=4", "[8,]", "[8]", R"(argument SRC:1:4: error: expected a size, found ']'
    1 | [8,]
      |    ^
)"},
{"x=4", "[2{x}]", "[8]", R"(argument SRC:1:6: error: expected the global size, found ']'
    1 | [2{x}]
      |      ^
)"},
{"x=4", "[2{x 8]", "[8]", R"(argument SRC:1:6: error: expected '}' or ',' after an axis, found '8'
    1 | [2{x 8]
      |      ^
)"},
{"x=4", "[2{\"x}8]", "[8]", R"(argument SRC:1:4: error: the quotes around an axis name are never closed
    1 | [2{"x}8]
      |    ^~~~~
)"},
{"x=4", "[ä]", "[8]", R"(argument SRC:1:2: error: expected a size, found 'ä'
    1 | [ä]
      |  ^
)"},
{"x=4", "[8\x1b]", "[8]", R"(argument SRC:1:3: error: expected ']' or ',' after a dimension, found a control character
    1 | [8 ]
      |   ^
)"},
  });
}
// clang-format on

TEST(PlanFault, cost_beyond63_bits) {
  EXPECT_EQ(run_retile({"plan", "--planner", "gather-slice", "--mesh", "a=2,b=2",
                        "[1073741823{a}2147483646, 2147483649{b}4294967298]", "[2147483646, 4294967298]"}),
            input_fault("error: the cost of the plan does not fit in 63 bits\n"));
}

TEST(PlanFault, memory_limits) {
  const auto plan = [](const std::string& limit) {
    return run_retile({"plan", "--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]", "--memory-limit", limit});
  };
  EXPECT_EQ(plan("4Mb"), input_fault(R"(argument --memory-limit:1:1: error: unknown unit of memory 'Mb'
    1 | 4Mb
      | ^~~
hint: did you mean MB? write bytes (4096, 512MiB, 1.5GB) or a factor of the larger tile (2.5x)
)"));
  EXPECT_EQ(plan("15"),
            input_fault(R"(argument --memory-limit:1:1: error: a memory limit of 15 bytes per device is too small
    1 | 15
      | ^~
hint: the smallest limit that works is 128 bytes
)"));
}

// --- In lines of a file.

struct ProblemCase {
  std::string line;
  std::string diagnostic;  // after "standard input:"
};

void expect_problem_faults(const std::vector<ProblemCase>& cases) {
  for (const ProblemCase& fault : cases) {
    EXPECT_EQ(plan_problems(fault.line), input_fault("standard input:" + fault.diagnostic));
  }
}

// clang-format off
TEST(PlanProblemFault, json) {
  expect_problem_faults({
{R"({"mesh": {"x": 4},, "shape": [8]})", R"(1:19: error: malformed JSON: syntax error while parsing object key - unexpected ','; expected string literal
    1 | {"mesh": {"x": 4},, "shape": [8]}
      |                   ^
)"},
{R"({"mesh": {"x": 4})", R"(1:18: error: malformed JSON: syntax error while parsing object - unexpected end of input; expected '}'
    1 | {"mesh": {"x": 4}
      |                  ^
)"},
{R"({"mesh": {"x": 4}} {})", R"(1:20: error: malformed JSON: syntax error while parsing value - unexpected '{'; expected end of input
    1 | {"mesh": {"x": 4}} {}
      |                    ^
)"},
{R"([])", R"(1:1: error: the problem must be an object, not an array
    1 | []
      | ^~
)"},
{R"(7)", R"(1:1: error: the problem must be an object, not an integer
    1 | 7
      | ^
)"},
{R"(not JSON)", R"(1:2: error: malformed JSON: syntax error while parsing value - invalid literal
    1 | not JSON
      |  ^
)"},
{R"({"mesh": {"x": 4}, "mesh": {"x": 4}})", R"(1:20: error: the key "mesh" stands here twice
    1 | {"mesh": {"x": 4}, "mesh": {"x": 4}}
      |                    ^~~~~~
)"},
  });
}

TEST(PlanProblemFault, members) {
  expect_problem_faults({
{R"({})", R"(1:1: error: the problem has no "shape"
    1 | {}
      | ^~
standard input:1:1: error: the problem has no "mesh"
    1 | {}
      | ^~
standard input:1:1: error: the problem has no "src"
    1 | {}
      | ^~
standard input:1:1: error: the problem has no "dst"
    1 | {}
      | ^~
)"},
{R"({"mesh": {"x": 4}, "shape": [8], "src": [[]]})", R"(1:1: error: the problem has no "dst"
    1 | {"mesh": {"x": 4}, "shape": [8], "src": [[]]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
{R"({"mesh": [4], "shape": [8], "src": [[]], "dst": [[]]})", R"(1:10: error: "mesh" must be an object, not an array
    1 | {"mesh": [4], "shape": [8], "src": [[]], "dst": [[]]}
      |          ^~~
)"},
{R"({"mesh": {"x": 4}, "shape": 8, "src": [[]], "dst": [[]]})", R"(1:29: error: "shape" must be an array, not an integer
    1 | {"mesh": {"x": 4}, "shape": 8, "src": [[]], "dst": [[]]}
      |                             ^
)"},
{R"({"mesh": {"x": 4}, "shape": [8], "src": ["x"], "dst": [[]]})", R"(1:42: error: "src"[0] must be an array, not a string
    1 | {"mesh": {"x": 4}, "shape": [8], "src": ["x"], "dst": [[]]}
      |                                          ^~~
)"},
{R"({"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[4]]})", R"(1:56: error: "dst"[0][0] must be a string, not an integer
    1 | {"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[4]]}
      |                                                        ^
)"},
{R"({"id": 1, "mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]]})", R"(1:8: error: "id" must be a string, not an integer
    1 | {"id": 1, "mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]]}
      |        ^
)"},
{R"({"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]], "dtype": "f33"})", R"(1:69: error: unknown element type "f33"
    1 | {"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]], "dtype": "f33"}
      |                                                                     ^~~~~
hint: did you mean f32? use one of bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64 c64 c128
)"},
  });
}

TEST(PlanProblemFault, values) {
  expect_problem_faults({
{R"({"mesh": {"columns": 4}, "shape": [8], "src": [[]], "dst": [["colums"]]})", R"(1:62: error: unknown axis colums
    1 | {"mesh": {"columns": 4}, "shape": [8], "src": [[]], "dst": [["colums"]]}
      |                                                              ^~~~~~~~
hint: did you mean columns? the mesh has columns
)"},
{R"({"mesh": {"x": 4}, "shape": [16], "src": [[]], "dst": [["x", "x"]]})", R"(1:62: error: axis x is used twice
    1 | {"mesh": {"x": 4}, "shape": [16], "src": [[]], "dst": [["x", "x"]]}
      |                                                              ^~~
hint: an axis cuts at most one dimension, once
)"},
{R"({"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[], []]})", R"(1:54: error: "dst" is of rank 2, and the shape of rank 1
    1 | {"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[], []]}
      |                                                      ^~~~~~~~
hint: give one list of axes per dimension, [] where it is not cut
)"},
{R"({"mesh": {"x": 4}, "shape": [-8], "src": [[]], "dst": [[]]})", R"(1:30: error: "shape"[0] is negative
    1 | {"mesh": {"x": 4}, "shape": [-8], "src": [[]], "dst": [[]]}
      |                              ^~
)"},
{R"({"mesh": {"x": 4}, "shape": [8.5], "src": [[]], "dst": [[]]})", R"(1:30: error: "shape"[0] must be an integer, not 8.5
    1 | {"mesh": {"x": 4}, "shape": [8.5], "src": [[]], "dst": [[]]}
      |                              ^~~
hint: write it without a fraction or an exponent
)"},
{R"({"mesh": {"x": 4}, "shape": [9223372036854775808], "src": [[]], "dst": [[]]})", R"(1:30: error: "shape"[0] does not fit in 63 bits
    1 | {"mesh": {"x": 4}, "shape": [9223372036854775808], "src": [[]], "dst": [[]]}
      |                              ^~~~~~~~~~~~~~~~~~~
)"},
{R"({"mesh": {"x": 4}, "shape": [3037000500, 3037000500], "src": [[], []], "dst": [[], []]})", R"(1:29: error: the number of elements of the global array does not fit in 63 bits
    1 | {"mesh": {"x": 4}, "shape": [3037000500, 3037000500], "src": [[], []], "dst": [[], []]}
      |                             ^~~~~~~~~~~~~~~~~~~~~~~~
)"},
{R"({"mesh": {}, "shape": [8], "src": [["x"]], "dst": [[]]})", R"(1:37: error: unknown axis x
    1 | {"mesh": {}, "shape": [8], "src": [["x"]], "dst": [[]]}
      |                                     ^~~
hint: the mesh has no axes
)"},
{R"({"mesh": {"x": 0}, "shape": [8], "src": [[]], "dst": [[]]})", R"(1:16: error: "x" is 0
    1 | {"mesh": {"x": 0}, "shape": [8], "src": [[]], "dst": [[]]}
      |                ^
hint: sizes start at 1
)"},
{R"({"mesh": {"x": 65536, "y": 65536}, "shape": [8], "src": [[]], "dst": [[]]})", R"(1:23: error: the mesh has too many devices
    1 | {"mesh": {"x": 65536, "y": 65536}, "shape": [8], "src": [[]], "dst": [[]]}
      |                       ^~~~~~~~~~
hint: at most 2147483647 fit
)"},
{R"({"mesh": {"a": 2, "b": 2}, "shape": [2147483646, 4294967298], "src": [["a"], ["b"]], "dst": [[], []]})", R"(1:1: error: the cost of the plan does not fit in 63 bits
    1 | {"mesh": {"a": 2, "b": 2}, "shape": [2147483646, 4294967298], "src": [["a"], ["b"]], "dst": [[],...
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
  });
}
// clang-format on

TEST(PlanProblems, one_bad_line_does_not_keep_the_others_from_their_answers) {
  const std::string good = R"({"id": "good", "mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]]})";
  const std::string answer = R"(mesh {x: 4}  // good, planner gather-slice
  [8]  // 8 elements per device
    // nothing to do
// cost 0 (paper, optimal over all plans), floor 0
// peak 8 elements per device, no more than the larger of source and target
)";
  const ProcessResult result = plan_problems(good + "\n\n7\n" + good + "\n");
  EXPECT_EQ(result, (ProcessResult{1, answer + "\n" + answer,
                                   R"(standard input:3:1: error: the problem must be an object, not an integer
    3 | 7
      | ^
)"}));
}

TEST(PlanProblems, over_several_lines_have_faults_at_their_lines) {
  const std::string pretty = R"({
  "mesh": {"a": 2, "b": 2},

  "shape": [4, 6],
  "src": [["a"], []],
  "dst": [[], ["c"]]
}
)";
  EXPECT_EQ(plan_problems("\n" + pretty), input_fault(R"(standard input:7:16: error: unknown axis c
    7 |   "dst": [[], ["c"]]
      |                ^~~
hint: the mesh has a, b
)"));
  const std::string line = R"({"mesh": {"a": 2}, "shape": [4], "src": [["a"]], "dst": [[]], "id": "right"})";
  const ProcessResult mixed = plan_problems(line + "\n" + pretty + "{\"mesh\": [\n" + line + "\nproblem\n" + line);
  EXPECT_EQ(mixed.status, 1);
  EXPECT_EQ(mixed.output, plan_problems(line + "\n" + line + "\n" + line).output);
  EXPECT_EQ(mixed.errors, R"(standard input:7:16: error: unknown axis c
    7 |   "dst": [[], ["c"]]
      |                ^~~
hint: the mesh has a, b
standard input:9:11: error: malformed JSON: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal
    9 | {"mesh": [
      |           ^
standard input:11:1: error: malformed JSON: syntax error while parsing value - invalid literal
   11 | problem
      | ^
)");
}

TEST(PlanProblems, very_long_lines_are_shown_around_the_caret) {
  const std::string line =
      R"({"shape": [], "src": [], "dst": [], "id": ")" + std::string(1000000, 'y') + R"(", "mesh": 4})";
  const std::string shown(R"(", "mesh": 4})");
  EXPECT_EQ(plan_problems(line),
            input_fault("standard input:1:1000055: error: \"mesh\" must be an object, not an integer\n    1 | ..." +
                        std::string(96 - shown.size(), 'y') + shown + "\n      | " + std::string(97, ' ') + "^\n"));
}

TEST(PlanProblems, deeply_nested_lines_are_refused) {
  const std::string shown(96, '[');
  EXPECT_EQ(plan_problems(std::string(100000, '[')),
            input_fault("standard input:1:65: error: JSON nested deeper than 64 levels\n    1 | ..." + shown +
                        "...\n      | " + std::string(51, ' ') + "^\n"));
}

TEST(PlanProblems, none_are_a_fault) {
  const ProcessResult none = input_fault(R"(standard input:1:1: error: there are no problems in this file
    1 | 
      | ^
hint: each line is one, as JSON
)");
  EXPECT_EQ(plan_problems(""), none);
  EXPECT_EQ(plan_problems("\n\n"), none);
}

TEST(PlanProblems, the_last_line_may_be_the_broken_one) {
  EXPECT_EQ(
      plan_problems("\n{\"mesh\": [2\n\n"),
      input_fault(
          R"(standard input:2:12: error: malformed JSON: syntax error while parsing array - unexpected end of input; expected ']'
    2 | {"mesh": [2
      |            ^
)"));
}

TEST(PlanProblems, in_files_that_cannot_be_read) {
  const TemporaryFolder folder;
  EXPECT_EQ(folder.run_retile({"plan", "--problems", "missing.jsonl"}),
            input_fault("error: cannot read 'missing.jsonl': No such file or directory\n"));
  EXPECT_EQ(folder.run_retile({"plan", "--problems", ""}),
            input_fault("error: cannot read '': No such file or directory\n"));
  EXPECT_EQ(folder.run_retile({"plan", "--problems", "."}), input_fault("error: cannot read '.': Is a directory\n"));
}

TEST(PlanProblems, binary_files_are_one_fault) {
  const TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 100000; ++i) bytes += static_cast<char>(i * 7 + i / 256);
  folder.write("binary", bytes);
  const ProcessResult result = folder.run_retile({"plan", "--problems", "binary"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output, "");
  EXPECT_TRUE(result.errors.starts_with("binary:1:1: error: this is not text: it has a zero byte\n    1 | "))
      << result.errors;
  EXPECT_EQ(lines_of(result.errors).size(), 3U);
}

TEST(PlanProblems, files_are_named_as_the_argument_names_them) {
  const TemporaryFolder folder;
  folder.write("my problems.jsonl", "\n[]\n");
  EXPECT_EQ(folder.run_retile({"plan", "--problems", "my problems.jsonl"}),
            input_fault(R"(my problems.jsonl:2:1: error: the problem must be an object, not an array
    2 | []
      | ^~
)"));
}

}  // namespace
}  // namespace retile::test
