// Every diagnostic of parse_problem, word for word.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/base/input_errors.h"
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
  return test::diagnostic_of([&] { return parse_problem(SourceText{"problems.jsonl", text, 3}); });
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
    {R"("shape": [8, 6])", R"("shape": [8, -6])",
     R"(problems.jsonl:3:60: error: "shape"[1] is negative
    3 | ..."p1", "mesh": {"data": 2, "model": 4}, "shape": [8, -6], "src": [["data"], []], "dst": [[], []]}
      |                                                        ^~
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
hint: use one of bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3fn f8e5m2 f16 bf16 f32 f64 c64 c128
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

// A problem of 8 x 6 on 2 devices, with these members too.
std::string text_with(const std::string& members) { return R"({"mesh": {"a": 2}, "shape": [8, 6], )" + members + "}"; }

TEST(ParseProblem, says_what_is_wrong_with_views) {
  EXPECT_EQ(fault_in(text_with(R"("src": [[],["a"],[]], "src_view": [[2, 3],[6]], "dst": [[],[]])")),
            "problems.jsonl:3:72: error: these factors do not make up dimension 0, which has 8\n"
            "    3 | ...esh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[],[\"a\"],[]], \"src_view\": [[2, 3],[6]], "
            "\"dst\": [[],[]]}\n"
            "      |                                                                        ^~~~~~\n"
            "hint: list the factors of each dimension from major to minor; [n] where it is whole\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"]], "src_view": [[],[6]], "dst": [[],[]])")),
            "problems.jsonl:3:66: error: these factors do not make up dimension 0, which has 8\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"]], \"src_view\": [[],[6]], \"dst\": "
            "[[],[]]}\n"
            "      |                                                                  ^~\n"
            "hint: list the factors of each dimension from major to minor; [n] where it is whole\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_view": [[8]], "dst": [[],[]])")),
            "problems.jsonl:3:68: error: \"src_view\" has 1 entries instead of 2\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"src_view\": [[8]], \"dst\": "
            "[[],[]]}\n"
            "      |                                                                    ^~~~~\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[],[],[]], "src_view": [[2, 4],[6]], "dst": [[],[]])")),
            "problems.jsonl:3:44: error: \"src\" is of rank 4, and the view of rank 3\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[],[],[]], \"src_view\": [[2, "
            "4],[6]], \"dst\": [[...\n"
            "      |                                            ^~~~~~~~~~~~~~~~\n"
            "hint: give one list of axes per factor, [] where it is not cut\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],["a"],[]], "src_view": [[2, 4],[6]], "dst": [[],[]])")),
            "problems.jsonl:3:52: error: axis a is used twice\n"
            "    3 | ...esh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[\"a\"],[]], \"src_view\": [[2, "
            "4],[6]], \"dst\": [[],[...\n"
            "      |                                                    ^~~\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(ParseProblem, says_what_is_wrong_with_rules) {
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [[],[]], "uneven": "floor")")),
            "problems.jsonl:3:82: error: unknown rule \"floor\"\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[],[]], \"uneven\": "
            "\"floor\"}\n"
            "      |                                                                                  ^~~~~~~\n"
            "hint: use one of ceil, nested, balanced, last\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [[],[]], "uneven": "nestd")")),
            "problems.jsonl:3:82: error: unknown rule \"nestd\"\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[],[]], \"uneven\": "
            "\"nestd\"}\n"
            "      |                                                                                  ^~~~~~~\n"
            "hint: did you mean nested? use one of ceil, nested, balanced, last\n");
  EXPECT_EQ(
      fault_in(text_with(R"("src": [["a"],[]], "dst": [[],[]], "uneven": {"dst": "padded"})")),
      "problems.jsonl:3:90: error: unknown rule \"padded\"\n"
      "    3 | ...esh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[],[]], \"uneven\": {\"dst\": "
      "\"padded\"}}\n"
      "      |                                                                                          ^~~~~~~~\n"
      "hint: use one of ceil, nested, balanced, last\n");
  EXPECT_EQ(
      fault_in(text_with(R"("src": [["a"],[]], "dst": [[],[]], "uneven": 1)")),
      "problems.jsonl:3:82: error: \"uneven\" must be a string, not an integer\n"
      "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[],[]], \"uneven\": 1}\n"
      "      |                                                                                  ^\n");
}

TEST(ParseProblem, says_what_is_wrong_with_blocks_and_listed_tiles) {
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_cyclic": [3], "dst": [[],[]])")),
            R"(problems.jsonl:3:70: error: "src_cyclic" has 1 entries instead of 2
    3 | {"mesh": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "src_cyclic": [3], "dst": [[],[]]}
      |                                                                      ^~~
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_cyclic": [0, null], "dst": [[],[]])")),
            R"(problems.jsonl:3:71: error: "src_cyclic"[0] is 0
    3 | {"mesh": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "src_cyclic": [0, null], "dst": [[],[]]}
      |                                                                       ^
hint: sizes start at 1
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_cyclic": [[3, 2], null], "dst": [[],[]])")),
            R"(problems.jsonl:3:71: error: the first block is on device 2 of 2
    3 | ...sh": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "src_cyclic": [[3, 2], null], "dst": [[],[]]}
      |                                                                      ^~~~~~
hint: devices along the axes count from 0 to 1
)");
  EXPECT_EQ(
      fault_in(text_with(R"("src": [[],["a"],[]], "src_view": [[4, 2],[6]], "src_cyclic": [3, null], "dst": [[],[]])")),
      R"(problems.jsonl:3:100: error: a dimension in factors is cut by the rule
    3 | ...[8, 6], "src": [[],["a"],[]], "src_view": [[4, 2],[6]], "src_cyclic": [3, null], "dst": [[],[]]}
      |                                                                           ^
hint: blocks and listed tiles are of dimensions that are whole
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["a"],[]], "dst_tiles": [[4, 3], null])")),
            R"(problems.jsonl:3:89: error: the list has 2 tiles with 7 elements, not 2 with 8
    3 | ...": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "dst": [["a"],[]], "dst_tiles": [[4, 3], null]}
      |                                                                                      ^~~~~~
hint: list the size of every tile along the axes
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["a"],[]], "dst_tiles": [[4, "4"], null])")),
            R"(problems.jsonl:3:93: error: "dst_tiles"[0][1] must be an integer, not a string
    3 | ... {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "dst": [["a"],[]], "dst_tiles": [[4, "4"], null]}
      |                                                                                        ^~~
)");
}

TEST(ParseProblem, says_what_is_wrong_with_halos) {
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["a"],[]], "dst_halo": [[1, -1], [0, 0]])")),
            R"(problems.jsonl:3:92: error: "dst_halo"[0][1] is negative
    3 | ... {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "dst": [["a"],[]], "dst_halo": [[1, -1], [0, 0]]}
      |                                                                                       ^~
)");
  EXPECT_EQ(fault_in(text_with(
                R"("src": [["a"],[]], "dst": [["a"],[]], "dst_halo": [[3, 2], [0, 0]], "dst_wrap": [true, false])")),
            R"(problems.jsonl:3:88: error: a halo of 3 and 2 around a tile of 4 wraps round 8 elements more than once
    3 | ..., "src": [["a"],[]], "dst": [["a"],[]], "dst_halo": [[3, 2], [0, 0]], "dst_wrap": [true, false]}
      |                                                         ^~~~~~
hint: a tile and its ghost zones hold each element once
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["a"],[]], "dst_wrap": [true, false])")),
            R"(problems.jsonl:3:87: error: nothing wraps without a halo
    3 | ...sh": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "dst": [["a"],[]], "dst_wrap": [true, false]}
      |                                                                                      ^~~~~~~~~~~~~
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_halo": [[1, 1], [0, 0]], "dst": [["a"],[]])")), "no error");
  EXPECT_EQ(
      fault_in(text_with(
          R"("src": [["a"],[]], "dst_boxes": [[[[0, 0], [4, 6]]], [[[4, 0], [8, 6]]]], "dst_halo": [[3, 2], [0, 0]], "dst_wrap": [true, false])")),
      R"(problems.jsonl:3:124: error: a halo of 3 and 2 around a tile of 4 wraps round 8 elements more than once
    3 | ...[[0, 0], [4, 6]]], [[[4, 0], [8, 6]]]], "dst_halo": [[3, 2], [0, 0]], "dst_wrap": [true, false]}
      |                                                         ^~~~~~
hint: a tile and its ghost zones hold each element once
)");
}

TEST(ParseProblem, says_what_is_wrong_with_orders) {
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["a"],[]], "dst_order": [1, 2])")),
            R"(problems.jsonl:3:92: error: there is no dimension 2
    3 | {"mesh": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "dst": [["a"],[]], "dst_order": [1, 2]}
      |                                                                                            ^
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["a"],[]], "dst_order": [1, 1])")),
            R"(problems.jsonl:3:88: error: [1, 1] is no order of 2 dimensions
    3 | {"mesh": {"a": 2}, "shape": [8, 6], "src": [["a"],[]], "dst": [["a"],[]], "dst_order": [1, 1]}
      |                                                                                        ^~~~~~
hint: list each dimension once, the outermost in memory first
)");
  EXPECT_EQ(fault_in(text_with(R"("src": [[],[]], "src_sum": ["a"], "dst": [["a"],[]], "dst_order": [1, 0])")),
            R"(problems.jsonl:3:1: error: a sum goes to tiles that are cut by a rule, row-major and without halo
    3 | {"mesh": {"a": 2}, "shape": [8, 6], "src": [[],[]], "src_sum": ["a"], "dst": [["a"],[]], "dst_or...
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
hint: redistribute the sum first, then to this layout
)");
}

TEST(ParseProblem, says_what_is_wrong_with_devices) {
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_devices": [0], "dst": [[],[]])")),
            "problems.jsonl:3:71: error: 1 devices for a mesh of 2\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"src_devices\": [0], \"dst\": "
            "[[],[]]}\n"
            "      |                                                                       ^~~\n"
            "hint: list the devices of the world in row-major order of the mesh\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "src_devices": [1, 1], "dst": [[],[]])")),
            "problems.jsonl:3:75: error: device 1 is listed twice\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"src_devices\": [1, 1], "
            "\"dst\": [[],[]]}\n"
            "      |                                                                           ^\n"
            "hint: each place of the mesh has a device of its own\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [[],[]], "dst_devices": [0, -1])")),
            "problems.jsonl:3:91: error: -1 is no device\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[],[]], "
            "\"dst_devices\": [0, -1]}\n"
            "      |                                                                                           ^~\n"
            "hint: the largest world has devices 0 to 2147483646\n");
  EXPECT_EQ(
      fault_in(text_with(R"("src": [["a"],[]], "dst": [[],[]], "dst_devices": [0, 2147483647])")),
      "problems.jsonl:3:91: error: 2147483647 is no device\n"
      "    3 | ...\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[],[]], \"dst_devices\": [0, "
      "2147483647]}\n"
      "      |                                                                                        ^~~~~~~~~~\n"
      "hint: the largest world has devices 0 to 2147483646\n");
  EXPECT_EQ(fault_in(text_with(R"("src": [["a"],[]], "dst": [["b"],[]], "dst_mesh": {"c": 4})")),
            "problems.jsonl:3:65: error: unknown axis b\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"dst\": [[\"b\"],[]], "
            "\"dst_mesh\": {\"c\": 4}}\n"
            "      |                                                                 ^~~\n"
            "hint: the mesh has c\n");
}

TEST(ParseProblem, says_what_is_wrong_with_boxes) {
  EXPECT_EQ(fault_in(text_with(R"("src_boxes": [[[[0, 0], [8, 6]]], [[[0, 0], [8, 7]]]], "dst": [[],[]])")),
            "problems.jsonl:3:72: error: [0:8, 0:7] is no box of an array of [8, 6]\n"
            "    3 | ...\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[[0, 0], [8, 6]]], [[[0, 0], [8, 7]]]], "
            "\"dst\": [[],[]]}\n"
            "      |                                                                 ^~~~~~~~~~~~~~~~\n"
            "hint: a box goes from its first elements up to but not including its last, inside the array\n");
  EXPECT_EQ(
      fault_in(text_with(R"("src_boxes": [[[[0, 0], [5, 6]]], [[[4, 0], [8, 6]]]], "dst": [[],[]])")),
      "problems.jsonl:3:72: error: [4:8, 0:6] of device 1 and [0:5, 0:6] of device 0 overlap, and are not the same\n"
      "    3 | ...\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[[0, 0], [5, 6]]], [[[4, 0], [8, 6]]]], \"dst\": "
      "[[],[]]}\n"
      "      |                                                                 ^~~~~~~~~~~~~~~~\n"
      "hint: replicas hold equal boxes; all others are disjoint\n");
  EXPECT_EQ(fault_in(text_with(R"("src_boxes": [[[[0, 0], [4, 6]]], [[[5, 0], [8, 6]]]], "dst": [[],[]])")),
            "problems.jsonl:3:50: error: no device holds element [4, 0]\n"
            "    3 | ...\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[[0, 0], [4, 6]]], [[[5, 0], [8, "
            "6]]]], \"dst\":...\n"
            "      |                                                    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
            "hint: together the boxes make up the array\n");
  EXPECT_EQ(fault_in(text_with(R"("src_boxes": [[[0, 0], [4, 6]]], "dst": [[],[]])")),
            "problems.jsonl:3:53: error: \"src_boxes\"[0][0][0] must be an array, not an integer\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[0, 0], [4, 6]]], \"dst\": [[],[]]}\n"
            "      |                                                     ^\n");
  EXPECT_EQ(fault_in(text_with(R"("src_boxes": [[[[0], [4]]]], "dst": [[],[]])")),
            "problems.jsonl:3:53: error: \"src_boxes\"[0][0][0] has 1 entries instead of 2\n"
            "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[[0], [4]]]], \"dst\": [[],[]]}\n"
            "      |                                                     ^~~\n");
}

TEST(ParseProblem, says_what_is_wrong_with_worlds) {
  EXPECT_EQ(
      fault_in(text_with(R"("src_boxes": [[[[0, 0], [8, 6]]]], "dst": [["a"],[]])")),
      "problems.jsonl:3:1: error: the world has 1 devices, and the target needs 2\n"
      "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[[0, 0], [8, 6]]]], \"dst\": [[\"a\"],[]]}\n"
      "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
      "hint: listed boxes have an entry for each device of the world, [] where it holds nothing\n");
  EXPECT_EQ(
      fault_in(text_with(R"("src": [["a"],[]], "src_devices": [0, 3], "dst_boxes": [[[[0, 0], [8, 6]]],[]])")),
      "problems.jsonl:3:1: error: the world has 2 devices, and the source needs 4\n"
      "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src\": [[\"a\"],[]], \"src_devices\": [0, 3], "
      "\"dst_boxes\": [[[[0...\n"
      "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
      "hint: listed boxes have an entry for each device of the world, [] where it holds nothing\n");
  EXPECT_EQ(
      fault_in(text_with(R"("src_boxes": [[[[0, 0], [8, 6]]]], "dst_boxes": [[[[0, 0], [8, 6]]],[]])")),
      "problems.jsonl:3:1: error: the world has 1 devices, and the target needs 2\n"
      "    3 | {\"mesh\": {\"a\": 2}, \"shape\": [8, 6], \"src_boxes\": [[[[0, 0], [8, 6]]]], \"dst_boxes\": [[[[0, "
      "0], [...\n"
      "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
      "hint: listed boxes have an entry for each device of the world, [] where it holds nothing\n");
}

// Messages alone, of all that is wrong.
std::vector<std::string> faults_in(const std::string& text) {
  InputFaults faults;
  faults.attempt([&] { parse_problem(SourceText{"problems.jsonl", text, 3}); });
  std::vector<std::string> messages;
  for (const Diagnostic& fault : faults.faults()) messages.push_back(fault.message);
  return messages;
}

TEST(ParseProblem, tells_all_that_is_wrong_and_nothing_that_follows_from_it) {
  using Messages = std::vector<std::string>;
  EXPECT_EQ(faults_in(R"({"mesh": {"a": 0, "b": -2}, "shape": [-1, "2"], "src": [["c"], [3]], "dst": 4, "dtype": 5})"),
            (Messages{"\"a\" is 0", "\"b\" is negative", "\"shape\"[0] is negative",
                      "\"shape\"[1] must be an integer, not a string", "\"src\"[1][0] must be a string, not an integer",
                      "\"dst\" must be an array, not an integer", "\"dtype\" must be a string, not an integer"}))
      << "axes of a mesh that is at fault are not known";
  EXPECT_EQ(faults_in(R"({"mesh": {"a": 2}, "src": [["b"]], "dst": [["a"], ["c"]]})"),
            (Messages{"the problem has no \"shape\"", "unknown axis b", "unknown axis c"}))
      << "no rank to compare with";
  EXPECT_EQ(faults_in(text_with(R"("src": [["b"]], "dst": [["a"],[]], "dst_sum": ["c"], "dst_devices": [0, "x"])")),
            (Messages{"\"src\" is of rank 1, and the shape of rank 2", "unknown axis b", "unknown axis c",
                      "\"dst_devices\"[1] must be an integer, not a string"}));
  EXPECT_EQ(faults_in(text_with(R"("src_view": [[2, -4], [3]], "src": [["b"],[],[]], "dst": [[],[],[]])")),
            (Messages{"\"src_view\"[0][1] is negative", "these factors do not make up dimension 1, which has 6",
                      "unknown axis b", "\"dst\" is of rank 3, and the shape of rank 2"}))
      << "factors are compared where all are known";
  EXPECT_EQ(faults_in(text_with(R"("src_view": [[8]], "src": [[["a"]],[[]]], "dst": [[],[]], "uneven": "round")")),
            (Messages{"unknown rule \"round\"", "\"src_view\" has 1 entries instead of 2"}))
      << "whether lists are nested is not known";
  EXPECT_EQ(faults_in(R"({"shape": [-8], "src_boxes": [[[[0]]]], "dst_boxes": [[[[0], [9]]]], "id": 1})"),
            (Messages{"\"id\" must be a string, not an integer", "\"shape\"[0] is negative",
                      "\"src_boxes\"[0][0] has 1 entries instead of 2"}));
  EXPECT_EQ(faults_in(R"({"format": 2, "shape": 1})"), Messages{"format 2 is not known here"})
      << "of another format, nothing else is known";
}

TEST(ParseProblem, takes_empty_arrays) {
  EXPECT_EQ(fault_in(R"({"mesh": {"a": 2}, "shape": [8, 0], "src": [["a"],[]], "dst": [[],["a"]]})"), "no error");
}

TEST(ParseProblem, takes_the_right_problem) { EXPECT_EQ(fault_in(right_problem), "no error"); }

TEST(ParseProblem, says_what_is_wrong_and_where) {
  for (const BrokenProblem& broken : broken_problems) EXPECT_EQ(fault_in(broken_text(broken)), broken.diagnostic);
}

}  // namespace
}  // namespace retile
