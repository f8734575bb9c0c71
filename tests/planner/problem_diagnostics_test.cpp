// Every diagnostic of parse_problem, word for word.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/planner/problem.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

const std::string right_problem =
    R"({"id": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [[], []]})";

struct BrokenProblem {
  const char* right;  // what is replaced in the problem above; null: all of it
  const char* wrong;
  const char* diagnostic;
};

std::string broken_text(const BrokenProblem& broken) {
  if (broken.right == nullptr) return broken.wrong;
  const std::string right = broken.right;
  const std::size_t place = right_problem.find(right);
  EXPECT_NE(place, std::string::npos) << right;
  return std::string(right_problem).replace(place, right.size(), broken.wrong);
}

std::string fault_in(const std::string& text) {
  return test::diagnostic_of([&] { return parse_problem({"problems.jsonl", text, 3}); });
}

const std::vector<BrokenProblem> broken_problems{
    {nullptr, R"({)",
     R"(problems.jsonl:3:2: error: malformed JSON: syntax error while parsing object key - unexpected end of input; expected string literal
    3 | {
      |  ^
)"},
    {nullptr, R"(7)",
     R"(problems.jsonl:3:1: error: the problem must be an object, not an integer
    3 | 7
      | ^
)"},
    {nullptr, R"({"mesh": {"a": 2}, "shape": [4], "src": [["a"]], "dst": [[]]} {})",
     R"(problems.jsonl:3:63: error: malformed JSON: syntax error while parsing value - unexpected '{'; expected end of input
    3 | {"mesh": {"a": 2}, "shape": [4], "src": [["a"]], "dst": [[]]} {}
      |                                                               ^
)"},
    {R"("mesh": {"data": 2, "model": 4}, )", R"()",
     R"(problems.jsonl:3:1: error: the problem has no "mesh"
    3 | {"id": "p1", "shape": [8, 6], "src": [["data"], []], "dst": [[], []]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("shape": [8, 6], )", R"()",
     R"(problems.jsonl:3:1: error: the problem has no "shape"
    3 | {"id": "p1", "mesh": {"data": 2, "model": 4}, "src": [["data"], []], "dst": [[], []]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("src": [["data"], []], )", R"()",
     R"(problems.jsonl:3:1: error: the problem has no "src"
    3 | {"id": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "dst": [[], []]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"(, "dst": [[], []])", R"()",
     R"(problems.jsonl:3:1: error: the problem has no "dst"
    3 | {"id": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("mesh": {"data": 2, "model": 4})", R"("mesh": {"data": 2, "data": 4})",
     R"(problems.jsonl:3:34: error: the key "data" stands here twice
    3 | {"id": "p1", "mesh": {"data": 2, "data": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [[],...
      |                                  ^~~~~~
)"},
    {R"("mesh": {"data": 2, "model": 4})", R"("mesh": {"data": 65536, "model": 65536})",
     R"(problems.jsonl:3:38: error: the mesh has too many devices
    3 | {"id": "p1", "mesh": {"data": 65536, "model": 65536}, "shape": [8, 6], "src": [["data"], []], "d...
      |                                      ^~~~~~~~~~~~~~
hint: at most 2147483647 fit
)"},
    {R"("mesh": {"data": 2, "model": 4})", R"("mesh": {"da\nta": 2, "model": 4})",
     R"(problems.jsonl:3:23: error: an axis's name must be printable UTF-8
    3 | {"id": "p1", "mesh": {"da\nta": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [...
      |                       ^~~~~~~~~~~
)"},
    {R"("mesh": {"data": 2, "model": 4})", R"("mesh": "data=2")",
     R"(problems.jsonl:3:22: error: "mesh" must be an object, not a string
    3 | {"id": "p1", "mesh": "data=2", "shape": [8, 6], "src": [["data"], []], "dst": [[], []]}
      |                      ^~~~~~~~
)"},
    {R"("shape": [8, 6])", R"("shape": 48)",
     R"(problems.jsonl:3:56: error: "shape" must be an array, not an integer
    3 | ...id": "p1", "mesh": {"data": 2, "model": 4}, "shape": 48, "src": [["data"], []], "dst": [[], []]}
      |                                                         ^~
)"},
    {R"("shape": [8, 6])", R"("shape": [8, "6"])",
     R"(problems.jsonl:3:60: error: "shape"[1] must be an integer, not a string
    3 | ...p1", "mesh": {"data": 2, "model": 4}, "shape": [8, "6"], "src": [["data"], []], "dst": [[], []]}
      |                                                       ^~~
)"},
    {R"("shape": [8, 6])", R"("shape": [8, 0])",
     R"(problems.jsonl:3:60: error: "shape"[1] is 0
    3 | ... "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 0], "src": [["data"], []], "dst": [[], []]}
      |                                                         ^
hint: sizes start at 1
)"},
    {R"("shape": [8, 6])", R"("shape": [8, -6])",
     R"(problems.jsonl:3:60: error: "shape"[1] is negative
    3 | ..."p1", "mesh": {"data": 2, "model": 4}, "shape": [8, -6], "src": [["data"], []], "dst": [[], []]}
      |                                                        ^~
hint: sizes start at 1
)"},
    {R"("shape": [8, 6])", R"("shape": [8, 9223372036854775808])",
     R"(problems.jsonl:3:60: error: "shape"[1] does not fit in 63 bits
    3 | ..., "mesh": {"data": 2, "model": 4}, "shape": [8, 9223372036854775808], "src": [["data"], []], "ds...
      |                                                    ^~~~~~~~~~~~~~~~~~~
)"},
    {R"("shape": [8, 6])", R"("shape": [9223372036854775806, 2])",
     R"(problems.jsonl:3:56: error: the number of elements of the global array does not fit in 63 bits
    3 | ..."p1", "mesh": {"data": 2, "model": 4}, "shape": [9223372036854775806, 2], "src": [["data"], []],...
      |                                                    ^~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("shape": [8, 6])", R"("shape": [4294967296, 4294967296])",
     R"(problems.jsonl:3:56: error: the number of elements of the global array does not fit in 63 bits
    3 | ..."p1", "mesh": {"data": 2, "model": 4}, "shape": [4294967296, 4294967296], "src": [["data"], []],...
      |                                                    ^~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("shape": [8, 6])", R"("shape": [8])",
     R"(problems.jsonl:3:68: error: "src" is of rank 2, and the shape of rank 1
    3 | ...d": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8], "src": [["data"], []], "dst": [[], []]}
      |                                                                    ^~~~~~~~~~~~~~
hint: give one list of axes per dimension, [] where it is not cut
)"},
    {R"("shape": [8, 6])", R"("shape": [8, 6.5])",
     R"(problems.jsonl:3:60: error: "shape"[1] must be an integer, not 6.5
    3 | ...p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6.5], "src": [["data"], []], "dst": [[], []]}
      |                                                       ^~~
hint: write it without a fraction or an exponent
)"},
    {R"("src": [["data"], []])", R"("src": [["data"]])",
     R"(problems.jsonl:3:71: error: "src" is of rank 1, and the shape of rank 2
    3 | ...id": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"]], "dst": [[], []]}
      |                                                                        ^~~~~~~~~~
hint: give one list of axes per dimension, [] where it is not cut
)"},
    {R"("dst": [[], []])", R"("dst": [[], [], []])",
     R"(problems.jsonl:3:94: error: "dst" is of rank 3, and the shape of rank 2
    3 | ...", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [[], [], []]}
      |                                                                                       ^~~~~~~~~~~~
hint: give one list of axes per dimension, [] where it is not cut
)"},
    {R"("src": [["data"], []])", R"("src": ["data", []])",
     R"(problems.jsonl:3:72: error: "src"[0] must be an array, not a string
    3 | ...": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": ["data", []], "dst": [[], []]}
      |                                                                       ^~~~~~
)"},
    {R"("src": [["data"], []])", R"("src": [["dat"], []])",
     R"(problems.jsonl:3:73: error: unknown axis dat
    3 | ...: "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["dat"], []], "dst": [[], []]}
      |                                                                       ^~~~~
hint: did you mean data? the mesh has data, model
)"},
    {R"("src": [["data"], []])", R"("src": [["x"], []])",
     R"(problems.jsonl:3:73: error: unknown axis x
    3 | ...d": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["x"], []], "dst": [[], []]}
      |                                                                         ^~~
hint: the mesh has data, model
)"},
    {R"("src": [["data"], []])", R"("src": [[0], []])",
     R"(problems.jsonl:3:73: error: "src"[0][0] must be a string, not an integer
    3 | ..."id": "p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [[0], []], "dst": [[], []]}
      |                                                                           ^
)"},
    {R"("src": [["data"], []])", R"("src": [["data"], ["data"]])",
     R"(problems.jsonl:3:83: error: axis data is used twice
    3 | ... "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"], ["data"]], "dst": [[], []]}
      |                                                                          ^~~~~~
hint: an axis cuts at most one dimension, once
)"},
    {R"("src": [["data"], []])", R"("src": [["data", "data"], []])",
     R"(problems.jsonl:3:81: error: axis data is used twice
    3 | ...mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data", "data"], []], "dst": [[], []]}
      |                                                                      ^~~~~~
hint: an axis cuts at most one dimension, once
)"},
    {R"("src": [["data"], []])", R"("src": [[], ["model"]])",
     R"(problems.jsonl:3:76: error: 6 elements do not divide evenly over these axes
    3 | ..."p1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [[], ["model"]], "dst": [[], []]}
      |                                                                        ^~~~~~~~~
hint: 6 does not divide into 4 tiles
)"},
    {R"("src": [["data"], []])", R"("src": [["model:(3)2"], []])",
     R"(problems.jsonl:3:73: error: model:(3)2 is no part of axis model
    3 | ... "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["model:(3)2"], []], "dst": [[], []]}
      |                                                                ^~~~~~~~~~~~
hint: from major to minor its parts are model:(1)2, model:(2)2; neighbours may be joined
)"},
    {R"("src": [["data"], []])", R"("src": [["model:(2)2"], ["model:(1)4"]])",
     R"(problems.jsonl:3:89: error: model overlaps model:(2)2, which is used already
    3 | ...ata": 2, "model": 4}, "shape": [8, 6], "src": [["model:(2)2"], ["model:(1)4"]], "dst": [[], []]}
      |                                                                    ^~~~~~~~~~~~
hint: each part of an axis cuts at most one dimension, once
)"},
    {R"("src": [["data"], []])", R"("src": [["model:2"], []])",
     R"(problems.jsonl:3:74: error: axis model has size 4, not 2
    3 | ...1", "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["model:2"], []], "dst": [[], []]}
      |                                                                    ^~~~~~~
)"},
    {R"("src": [["data"], []])", R"("src": [["model:(2)2 x"], []])",
     R"(problems.jsonl:3:85: error: expected the end of the axis, found 'x'
    3 | ...mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["model:(2)2 x"], []], "dst": [[], []]}
      |                                                                          ^
)"},
    {R"("src": [["data"], []])", R"("src": [["model:(4611686018427387904)4"], []])",
     R"(problems.jsonl:3:73: error: model:(4611686018427387904)4 is no part of axis model
    3 | ...ata": 2, "model": 4}, "shape": [8, 6], "src": [["model:(4611686018427387904)4"], []], "dst": [[]...
      |                                                    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
hint: from major to minor its parts are model:(1)2, model:(2)2; neighbours may be joined
)"},
    {R"("dst": [[], []])", R"("dst": [[], []], "dtype": "float32")",
     R"(problems.jsonl:3:113: error: unknown element type "float32"
    3 | ...a": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [[], []], "dtype": "float32"}
      |                                                                                          ^~~~~~~~~
hint: use one of i8 f16 bf16 i32 f32 f64 c64 c128
)"},
    {R"("dst": [[], []])", R"("dst": [[], []], "dtype": 4)",
     R"(problems.jsonl:3:113: error: "dtype" must be a string, not an integer
    3 | ...": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [[], []], "dtype": 4}
      |                                                                                                  ^
)"},
    {R"("id": "p1")", R"("id": 1)",
     R"(problems.jsonl:3:8: error: "id" must be a string, not an integer
    3 | {"id": 1, "mesh": {"data": 2, "model": 4}, "shape": [8, 6], "src": [["data"], []], "dst": [[], [...
      |        ^
)"},
};

TEST(ParseProblem, takes_the_right_problem) { EXPECT_EQ(fault_in(right_problem), "no error"); }

TEST(ParseProblem, says_what_is_wrong_and_where) {
  for (const BrokenProblem& broken : broken_problems) EXPECT_EQ(fault_in(broken_text(broken)), broken.diagnostic);
}

}  // namespace
}  // namespace retile
