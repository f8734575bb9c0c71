// Every diagnostic of parse_plan, word for word.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/plan/json.h"
#include "tests/support/diagnostic_of.h"

namespace retile {
namespace {

// Over several lines, so that diagnostics show short ones.
const std::string right_plan = R"({"id": "p",
 "mesh": {"a": 2},
 "source": "[2{a}4]",
 "target": "[4]",
 "planner": "gather-slice",
 "cost": {"model": "paper", "total": 4, "lower_bound": 2, "floor": 2, "optimal": false},
 "memory": {"source": 2, "target": 4, "bound": 4, "peak": 4},
 "planning_ns": 0,
 "steps": [
  {"op": "allgather",
   "moves": [{"dim": 0, "factor": 2}],
   "groups": [[0, 1]],
   "local_in": [2], "local_out": [4], "cost": 4,
   "offsets": [[0], [0]]}]})";

struct BrokenPlan {
  const char* right;  // what is replaced in the plan above; null: all of it
  const char* wrong;
  const char* diagnostic;
};

std::string broken_text(const BrokenPlan& broken) {
  if (broken.right == nullptr) return broken.wrong;
  const std::string right = broken.right;
  const std::size_t place = right_plan.find(right);
  EXPECT_NE(place, std::string::npos) << right;
  return std::string(right_plan).replace(place, right.size(), broken.wrong);
}

std::string fault_in(const std::string& text) {
  return test::diagnostic_of([&] { return parse_plan({"plan.json", text}); });
}

const std::vector<BrokenPlan> broken_plans{
    {R"("target": "[4]")", R"("target": "[4]", "dst_devices": [1, 0])",
     R"(plan.json:4:34: error: these are not the devices of the target
    4 |  "target": "[4]", "dst_devices": [1, 0],
      |                                  ^~~~~~
hint: its text lists them: … on […]
)"},
    {nullptr, "",
     "plan.json:1:1: error: malformed JSON: syntax error while parsing value - unexpected end of input; expected '[', "
     "'{', or a literal\n"
     "    1 | \n"
     "      | ^\n"},
    {nullptr, "{\"id\": \"p\",\n \"mesh\" 2}",
     R"(plan.json:2:9: error: malformed JSON: syntax error while parsing object separator - unexpected number literal; expected ':'
    2 |  "mesh" 2}
      |         ^
)"},
    {nullptr, R"({"mesh": 1e999})",
     R"(plan.json:1:10: error: malformed JSON: number overflow parsing '1e999'
    1 | {"mesh": 1e999}
      |          ^~~~~
)"},
    {nullptr, R"([1, 2])",
     R"(plan.json:1:1: error: the plan must be an object, not an array
    1 | [1, 2]
      | ^~~~~~
)"},
    {nullptr, R"({"id": "a", "id": "b"})",
     R"(plan.json:1:13: error: the key "id" stands here twice
    1 | {"id": "a", "id": "b"}
      |             ^~~~
)"},
    {R"( "mesh": {"a": 2},)", R"()",
     R"(plan.json:3:16: error: unknown axis a
    3 |  "source": "[2{a}4]",
      |                ^
hint: the mesh has no axes
)"},
    {R"( "mesh": {"a": 2},)", R"( "mesh": [2],)",
     R"(plan.json:2:10: error: "mesh" must be an object, not an array
    2 |  "mesh": [2],
      |          ^~~
)"},
    {R"({"a": 2})", R"({"a": 0})",
     R"(plan.json:2:16: error: "a" is 0
    2 |  "mesh": {"a": 0},
      |                ^
hint: sizes start at 1
)"},
    {R"({"a": 2})", R"({"a": -2})",
     R"(plan.json:2:16: error: "a" is negative
    2 |  "mesh": {"a": -2},
      |                ^~
hint: sizes start at 1
)"},
    {R"({"a": 2})", R"({"a": "2"})",
     R"(plan.json:2:16: error: "a" must be an integer, not a string
    2 |  "mesh": {"a": "2"},
      |                ^~~
)"},
    {R"({"a": 2})", R"({"a": 2.5})",
     R"(plan.json:2:16: error: "a" must be an integer, not 2.5
    2 |  "mesh": {"a": 2.5},
      |                ^~~
hint: write it without a fraction or an exponent
)"},
    {R"({"a": 2})", R"({"a": 9223372036854775808})",
     R"(plan.json:2:16: error: "a" does not fit in 63 bits
    2 |  "mesh": {"a": 9223372036854775808},
      |                ^~~~~~~~~~~~~~~~~~~
)"},
    {R"({"a": 2})", R"({"a": 3000000000})",
     R"(plan.json:2:11: error: the mesh has too many devices
    2 |  "mesh": {"a": 3000000000},
      |           ^~~~~~~~~~~~~~~
hint: at most 2147483647 fit
)"},
    {R"({"a": 2})", R"({"": 2})",
     R"(plan.json:2:11: error: an axis has an empty name
    2 |  "mesh": {"": 2},
      |           ^~~~~
)"},
    {R"( "source": "[2{a}4]",)", R"()",
     R"(plan.json:1:1: error: the plan has no "source"
    1 | {"id": "p",
      | ^~~~~~~~~~~
)"},
    {R"("[2{a}4]")", R"("[2{b}4]")",
     R"(plan.json:3:16: error: unknown axis b
    3 |  "source": "[2{b}4]",
      |                ^
hint: the mesh has a
)"},
    {R"("[2{a}4]")", R"("[3{a}4]")",
     R"(plan.json:3:14: error: a size of 4 cannot be cut into 2 tiles of 3
    3 |  "source": "[3{a}4]",
      |              ^~~~~
hint: for 4 in all, the largest tile is 2
)"},
    {R"("[2{a}4]")", R"("[2{a}4")",
     R"(plan.json:3:19: error: expected ']' or ',' after a dimension, found the end
    3 |  "source": "[2{a}4",
      |                   ^
)"},
    {R"("[2{a}4]")", R"(["2{a}4"])",
     R"(plan.json:3:12: error: "source" must be a string, not an array
    3 |  "source": ["2{a}4"],
      |            ^~~~~~~~~
)"},
    {R"("[4]")", R"("[4{a,a}16]")",
     R"(plan.json:4:18: error: axis a is used twice
    4 |  "target": "[4{a,a}16]",
      |                  ^
hint: an axis cuts at most one dimension, once
)"},
    {R"("[4]")", R"("[4] x")",
     R"(plan.json:4:17: error: expected the end of the layout, found 'x'
    4 |  "target": "[4] x",
      |                 ^
)"},
    {R"("planner": "gather-slice")", R"("planner": 3)",
     R"(plan.json:5:13: error: "planner" must be a string, not an integer
    5 |  "planner": 3,
      |             ^
)"},
    {R"("total": 4, )", R"()",
     R"(plan.json:6:10: error: "cost" has no "total"
    6 |  "cost": {"model": "paper", "lower_bound": 2, "floor": 2, "optimal": false},
      |          ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("total": 4)", R"("total": -4)",
     R"(plan.json:6:38: error: "total" is negative
    6 |  "cost": {"model": "paper", "total": -4, "lower_bound": 2, "floor": 2, "optimal": false},
      |                                      ^~
)"},
    {R"("optimal": false)", R"("optimal": 0)",
     R"(plan.json:6:82: error: "optimal" must be true or false, not an integer
    6 |  "cost": {"model": "paper", "total": 4, "lower_bound": 2, "floor": 2, "optimal": 0},
      |                                                                                  ^
)"},
    {R"("optimal": false)", R"("optimal": null)",
     R"(plan.json:6:82: error: "optimal" must be true or false, not null
    6 |  "cost": {"model": "paper", "total": 4, "lower_bound": 2, "floor": 2, "optimal": null},
      |                                                                                  ^~~~
)"},
    {R"("peak": 4)", R"("peak": [4])",
     R"(plan.json:7:59: error: "peak" must be an integer, not an array
    7 |  "memory": {"source": 2, "target": 4, "bound": 4, "peak": [4]},
      |                                                           ^~~
)"},
    {R"("id": "p")", R"("id": 7)",
     R"(plan.json:1:8: error: "id" must be a string, not an integer
    1 | {"id": 7,
      |        ^
)"},
    {R"("planning_ns": 0)", R"("planning_ns": -1)",
     R"(plan.json:8:17: error: "planning_ns" is negative
    8 |  "planning_ns": -1,
      |                 ^~
)"},
    {R"("steps")", R"("stages")",
     R"(plan.json:1:1: error: the plan has no "steps"
    1 | {"id": "p",
      | ^~~~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "gather")",
     R"(plan.json:10:10: error: unknown step "gather"
   10 |   {"op": "gather",
      |          ^~~~~~~~
hint: steps are dynslice, alltoall, allgather, allpermute, exchange and reduce
)"},
    {R"("op": "allgather")", R"("op": 1)",
     R"(plan.json:10:10: error: "op" must be a string, not an integer
   10 |   {"op": 1,
      |          ^
)"},
    {R"("op": "allgather",)", R"()",
     R"(plan.json:10:3: error: "steps"[0] has no "op"
   10 |   {
      |   ^
)"},
    {R"("dim": 0)", R"("dim": 1)",
     R"(plan.json:11:22: error: there is no dimension 1
   11 |    "moves": [{"dim": 1, "factor": 2}],
      |                      ^
hint: the array has 1, counted from 0
)"},
    {R"("dim": 0)", R"("dim": -1)",
     R"(plan.json:11:22: error: "dim" is negative
   11 |    "moves": [{"dim": -1, "factor": 2}],
      |                      ^~
)"},
    {R"("dim": 0, )", R"()",
     R"(plan.json:11:14: error: "moves"[0] has no "dim"
   11 |    "moves": [{"factor": 2}],
      |              ^~~~~~~~~~~~~
)"},
    {R"("factor": 2)", R"("factor": 0)",
     R"(plan.json:11:35: error: "factor" is 0
   11 |    "moves": [{"dim": 0, "factor": 0}],
      |                                   ^
hint: sizes start at 1
)"},
    {R"("factor": 2)", R"("factor": 1.5)",
     R"(plan.json:11:35: error: "factor" must be an integer, not 1.5
   11 |    "moves": [{"dim": 0, "factor": 1.5}],
      |                                   ^~~
hint: write it without a fraction or an exponent
)"},
    {R"("moves": [{"dim": 0, "factor": 2}])", R"("moves": [3])",
     R"(plan.json:11:14: error: "moves"[0] must be an object, not an integer
   11 |    "moves": [3],
      |              ^
)"},
    {R"("moves": [{"dim": 0, "factor": 2}],)", R"()",
     R"(plan.json:10:3: error: "steps"[0] has no "moves"
   10 |   {"op": "allgather",
      |   ^~~~~~~~~~~~~~~~~~~
)"},
    {R"("groups": [[0, 1]])", R"("groups": [0, 1])",
     R"(plan.json:12:15: error: "groups"[0] must be an array, not an integer
   12 |    "groups": [0, 1],
      |               ^
)"},
    {R"("groups": [[0, 1]])", R"("groups": [[0, "1"]])",
     R"(plan.json:12:19: error: "groups"[0][1] must be an integer, not a string
   12 |    "groups": [[0, "1"]],
      |                   ^~~
)"},
    {R"("groups": [[0, 1]],)", R"()",
     R"(plan.json:10:3: error: "steps"[0] has no "groups"
   10 |   {"op": "allgather",
      |   ^~~~~~~~~~~~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "alltoall")",
     R"(plan.json:11:14: error: "moves"[0] has no "from"
   11 |    "moves": [{"dim": 0, "factor": 2}],
      |              ^~~~~~~~~~~~~~~~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "allpermute")",
     R"(plan.json:10:3: error: "steps"[0] has no "pairs"
   10 |   {"op": "allpermute",
      |   ^~~~~~~~~~~~~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "allpermute", "pairs": [[0, 1, 2]])",
     R"(plan.json:10:34: error: "pairs"[0] has 3 entries instead of 2
   10 |   {"op": "allpermute", "pairs": [[0, 1, 2]],
      |                                  ^~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "exchange")",
     R"(plan.json:10:3: error: "steps"[0] has no "transfers"
   10 |   {"op": "exchange",
      |   ^~~~~~~~~~~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "exchange", "transfers": [[0, 1, [0]]])",
     R"(plan.json:10:36: error: "transfers"[0] has 3 entries instead of 4
   10 |   {"op": "exchange", "transfers": [[0, 1, [0]]],
      |                                    ^~~~~~~~~~~
)"},
    {R"("op": "allgather")", R"("op": "exchange", "transfers": [[0, 1, [0], [1, 2]]])",
     R"(plan.json:10:48: error: "transfers"[0][3] has 2 entries instead of 1
   10 |   {"op": "exchange", "transfers": [[0, 1, [0], [1, 2]]],
      |                                                ^~~~~~
)"},
    {R"("op": "allgather")", R"("op": "exchange", "transfers": [[0, 1, 0, 1]])",
     R"(plan.json:10:43: error: "transfers"[0][2] must be an array, not an integer
   10 |   {"op": "exchange", "transfers": [[0, 1, 0, 1]],
      |                                           ^
)"},
    {R"("local_in": [2])", R"("local_in": [2, 2])",
     R"(plan.json:13:16: error: "local_in" has 2 entries instead of 1
   13 |    "local_in": [2, 2], "local_out": [4], "cost": 4,
      |                ^~~~~~
)"},
    {R"("local_out": [4])", R"("local_out": [])",
     R"(plan.json:13:34: error: "local_out" has 0 entries instead of 1
   13 |    "local_in": [2], "local_out": [], "cost": 4,
      |                                  ^~
)"},
    {R"("local_out": [4])", R"("local_out": [-4])",
     R"(plan.json:13:35: error: "local_out"[0] is negative
   13 |    "local_in": [2], "local_out": [-4], "cost": 4,
      |                                   ^~
)"},
    {R"("cost": 4,)", R"()",
     R"(plan.json:10:3: error: "steps"[0] has no "cost"
   10 |   {"op": "allgather",
      |   ^~~~~~~~~~~~~~~~~~~
)"},
    {R"("cost": 4,)", R"("cost": -4,)",
     R"(plan.json:13:47: error: "cost" is negative
   13 |    "local_in": [2], "local_out": [4], "cost": -4,
      |                                               ^~
)"},
    {R"("cost": 4,)", R"("cost": 4.0,)",
     R"(plan.json:13:47: error: "cost" must be an integer, not 4.0
   13 |    "local_in": [2], "local_out": [4], "cost": 4.0,
      |                                               ^~~
hint: write it without a fraction or an exponent
)"},
    {R"("offsets": [[0], [0]])", R"("offsets": [[0]])",
     R"(plan.json:14:15: error: "offsets" has 1 entries instead of 2
   14 |    "offsets": [[0]]}]}
      |               ^~~~~
)"},
    {R"("offsets": [[0], [0]])", R"("offsets": [[0], [0, 0]])",
     R"(plan.json:14:21: error: "offsets"[1] has 2 entries instead of 1
   14 |    "offsets": [[0], [0, 0]]}]}
      |                     ^~~~~~
)"},
    {R"("offsets": [[0], [0]])", R"("offsets": [[0], [9223372036854775808]])",
     R"(plan.json:14:22: error: "offsets"[1][0] does not fit in 63 bits
   14 |    "offsets": [[0], [9223372036854775808]]}]}
      |                      ^~~~~~~~~~~~~~~~~~~
)"},
    {R"("offsets": [[0], [0]])", R"("offsets": [[0], 0])",
     R"(plan.json:14:21: error: "offsets"[1] must be an array, not an integer
   14 |    "offsets": [[0], 0]}]}
      |                     ^
)"},
};

TEST(ParsePlan, takes_the_right_plan) { EXPECT_EQ(fault_in(right_plan), "no error"); }

TEST(ParsePlan, says_what_is_wrong_and_where) {
  for (const BrokenPlan& broken : broken_plans) EXPECT_EQ(fault_in(broken_text(broken)), broken.diagnostic);
}

// From block-cyclic to blocks, in the view of both.
const std::string viewed_plan = R"({"mesh": {"a": 2},
 "source": "[2*1{a}2*1]",
 "target": "[2{a}4]",
 "view": [[2, 2]],
 "steps": [
  {"op": "exchange",
   "transfers": [[0, 1, [1, 0], [2, 1]], [1, 0, [0, 1], [1, 2]]],
   "local_out": [1, 2],
   "boxes": [[[[0, 0], [1, 2]]], [[[1, 0], [2, 2]]]]}]})";

std::string fault_in_viewed(const std::string& right, const std::string& wrong) {
  EXPECT_NE(viewed_plan.find(right), std::string::npos) << right;
  return fault_in(std::string(viewed_plan).replace(viewed_plan.find(right), right.size(), wrong));
}

TEST(ParsePlan, takes_views_and_boxes) { EXPECT_EQ(fault_in(viewed_plan), "no error"); }

TEST(ParsePlan, says_what_is_wrong_with_views) {
  EXPECT_EQ(fault_in_viewed("[[2, 2]]", "[[3, 3]]"),
            "plan.json:4:11: error: these factors do not make up dimension 0, which has 4\n"
            "    4 |  \"view\": [[3, 3]],\n"
            "      |           ^~~~~~\n");
  EXPECT_EQ(fault_in_viewed("[[2, 2]]", "[[2], [2]]"),
            "plan.json:4:10: error: \"view\" has 2 entries instead of 1\n"
            "    4 |  \"view\": [[2], [2]],\n"
            "      |          ^~~~~~~~~~\n");
}

TEST(ParsePlan, says_what_is_wrong_with_boxes) {
  EXPECT_EQ(fault_in_viewed("[2, 2]]]]", "[2, 3]]]]"),
            "plan.json:9:13: error: [1:2, 0:3] is no box of an array of [2, 2]\n"
            "    9 |    \"boxes\": [[[[0, 0], [1, 2]]], [[[1, 0], [2, 3]]]]}]}\n"
            "      |             ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(fault_in_viewed("[2, 2]]]]", "[2, -1]]]]"),
            "plan.json:9:13: error: [1:2, 0:-1] is no box of an array of [2, 2]\n"
            "    9 |    \"boxes\": [[[[0, 0], [1, 2]]], [[[1, 0], [2, -1]]]]}]}\n"
            "      |             ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(fault_in_viewed("[2, 2]]]]", "[2]]]]"),
            "plan.json:9:44: error: \"boxes\"[1][0][1] has 1 entries instead of 2\n"
            "    9 |    \"boxes\": [[[[0, 0], [1, 2]]], [[[1, 0], [2]]]]}]}\n"
            "      |                                            ^~~\n");
  EXPECT_EQ(fault_in_viewed(", [[[1, 0], [2, 2]]]]", "]"),
            "plan.json:9:13: error: \"boxes\" has 1 entries instead of 2\n"
            "    9 |    \"boxes\": [[[[0, 0], [1, 2]]]]}]}\n"
            "      |             ^~~~~~~~~~~~~~~~~~~~\n");
}

TEST(ParsePlan, asks_for_the_lists_that_large_plans_leave_out) {
  std::string text = right_plan;
  const std::string offsets = ",\n   \"offsets\": [[0], [0]]";
  text.erase(text.find(offsets), offsets.size());
  EXPECT_EQ(fault_in(text), R"(plan.json:10:3: error: a step without offsets or boxes cannot be checked
   10 |   {"op": "allgather",
      |   ^~~~~~~~~~~~~~~~~~~
hint: above 4096 devices they are left out; make the plan with --full
)");
}

StatedPlan read_without(const std::string& text) {
  std::string rest = right_plan;
  EXPECT_NE(rest.find(text), std::string::npos) << text;
  rest.erase(rest.find(text), text.size());
  return parse_plan({"plan.json", rest});
}

TEST(ParsePlan, may_leave_out_what_devices_do_not_need) {
  EXPECT_EQ(read_without("\"id\": \"p\",").plan.id, "");
  EXPECT_EQ(read_without(" \"planner\": \"gather-slice\",\n").plan.planner, "");
  EXPECT_EQ(read_without(" \"planning_ns\": 0,\n").plan.planning_ns, 0);
  EXPECT_FALSE(read_without(R"( "memory": {"source": 2, "target": 4, "bound": 4, "peak": 4},)").statements.memory);
  EXPECT_FALSE(read_without(R"("local_in": [2], )").statements.steps[0].local_in);
  const std::string cost =
      R"( "cost": {"model": "paper", "total": 4, "lower_bound": 2, "floor": 2, "optimal": false},)";
  EXPECT_FALSE(read_without(cost).statements.cost);
}

TEST(ParsePlan, counts_lines_from_where_the_text_starts) {
  const std::string fault = test::diagnostic_of([] { return parse_plan({"plans.jsonl", "[]", 7}); });
  EXPECT_EQ(fault, "plans.jsonl:7:1: error: the plan must be an object, not an array\n    7 | []\n      | ^~\n");
}

}  // namespace
}  // namespace retile
