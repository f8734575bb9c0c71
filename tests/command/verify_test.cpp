#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

ProcessResult verify(const std::string& plans) { return run_retile({"verify", "-"}, plans); }

// [2{a}4, 6] on mesh {a: 2, b: 2}, gathered along a, then sliced along b.
Json small_plan() {
  const ProcessResult result =
      run_retile({"plan", "--planner", "gather-slice", "--mesh", "a=2,b=2", "[2{a}4, 6]", "[4, 3{b}6]", "--json"});
  Json plan = Json::parse(result.output);
  plan["planning_ns"] = 0;
  return plan;
}

std::string tampered(const std::function<void(Json& plan)>& tamper) {
  Json plan = small_plan();
  tamper(plan);
  return plan.dump();
}

const std::string bound_confirmed = "; lower bound 12 confirmed: gather-slice proves 12\n";

std::string verified(const std::string& place) {
  return place + ": plan verified: 2 steps, cost 24 (paper), peak 24 of 24 elements allowed" + bound_confirmed;
}

TEST(Verify, text_is_one_fault) {
  const std::string text = run_retile({"plan", "--mesh", "a=2", "[2{a}4]", "[4]"}).output;
  EXPECT_EQ(verify(text), input_fault(R"(standard input:1:1: error: there are no plans in this file
    1 | mesh {a: 2}  // planner wide
      | ^
hint: each line is one, as JSON
)"));
}

// --- Plans that are right.

TEST(Verify, the_papers_plans) {
  const std::string plans = run_retile({"plan", "--planner", "gather-slice", "--problems",
                                        RETILE_SOURCE_DIR "/examples/paper.jsonl", "--json"})
                                .output;
  const ProcessResult result = verify(plans);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  const std::vector<std::string> lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 11U);
  EXPECT_EQ(lines[0],
            "standard input:1: fig:simple-redist verified: 2 steps, cost 65,536 (paper), "
            "peak 65,536 of 65,536 elements allowed; "
            "lower bound 2,048 confirmed: gather-slice proves 2,048");
  EXPECT_EQ(lines[10],
            "standard input:11: tbl:adversarial, P4 verified: 4 steps, cost 29,360,128 (paper), "
            "peak 16,777,216 of 16,777,216 elements allowed; "
            "lower bound 8,388,608 confirmed: gather-slice proves 8,388,608");
}

TEST(Verify, the_plans_of_every_planner) {
  for (const std::string planner : {"wide", "paper", "direct", "gather-slice"}) {
    const std::string plans = run_retile({"plan", "--planner", planner, "--cost", "volume", "--problems",
                                          RETILE_SOURCE_DIR "/examples/paper.jsonl", "--json"})
                                  .output;
    const ProcessResult result = verify(plans);
    EXPECT_EQ(result.status, 0) << planner;
    EXPECT_EQ(result.errors, "") << planner;
    EXPECT_EQ(lines_of(result.output).size(), 11U) << planner;
  }
}

TEST(Verify, a_plan_per_line_or_over_many_lines) {
  const Json plan = small_plan();
  EXPECT_EQ(verify(plan.dump()), done(verified("standard input:1")));
  EXPECT_EQ(verify("\n\n" + plan.dump() + "\r\n\n" + plan.dump() + "\n"),
            done(verified("standard input:3") + verified("standard input:5")));
  EXPECT_EQ(verify("\n" + plan.dump(2) + "\n"), done(verified("standard input:2")));
  EXPECT_EQ(verify(plan.dump(0)), done(verified("standard input:1")));

  const std::size_t lines = lines_of(plan.dump(2)).size();
  EXPECT_EQ(verify(plan.dump(2) + "\n\n" + plan.dump(2)),
            done(verified("standard input:1") + verified("standard input:" + std::to_string(lines + 2))));
}

TEST(Verify, brackets_in_an_id_end_no_plan) {
  const std::string plan = tampered([](Json& json) { json["id"] = "\"}]\\"; });
  const std::string expected =
      "\"}]\\ verified: 2 steps, cost 24 (paper), peak 24 of 24 elements allowed" + bound_confirmed;
  EXPECT_EQ(verify(plan), done("standard input:1: " + expected));
  EXPECT_EQ(verify(Json::parse(plan).dump(2)), done("standard input:1: " + expected));
}

TEST(Verify, an_id_cannot_steer_the_terminal) {
  EXPECT_EQ(verify(tampered([](Json& plan) { plan["id"] = "\x1b[2J"; })),
            done("standard input:1:  [2J verified: 2 steps, cost 24 (paper), peak 24 of 24 elements allowed" +
                 bound_confirmed));
}

// Somebody else's plan: what devices do, and nothing about it.
TEST(Verify, a_plan_that_says_nothing_of_itself) {
  const std::string plan = tampered([](Json& json) {
    for (const char* key : {"id", "planner", "cost", "memory", "planning_ns"}) json.erase(key);
    for (Json& step : json["steps"]) {
      step.erase("local_in");
      step.erase("cost");
    }
  });
  EXPECT_EQ(verify(plan), done("standard input:1: plan verified: 2 steps\n"));
}

TEST(Verify, large_groups_take_no_time) {
  const std::string plan =
      run_retile({"plan", "--planner", "gather-slice", "--mesh", "x=8192", "[1{x}8192]", "[8192]", "--json", "--full"})
          .output;
  EXPECT_EQ(verify(plan),
            done("standard input:1: plan verified: 1 step, cost 8,192 (paper), peak 8,192 of 8,192 elements allowed; "
                 "optimal confirmed: gather-slice proves 8,192\n"));
}

// Bounds that nobody here can have proved are no fault of the plan; that they were not checked is said.
TEST(Verify, says_what_was_not_checked) {
  EXPECT_EQ(verify(tampered([](Json& plan) {
              plan["planner"] = "xla";
              plan["cost"].erase("over");
              plan["cost"]["lower_bound"] = 20;
            })),
            done("standard input:1: plan verified: 2 steps, cost 24 (paper), peak 24 of 24 elements allowed; "
                 "lower bound 20 not checked: \"xla\" is no planner of retile\n"));
  EXPECT_EQ(verify(tampered([](Json& plan) {
              plan.erase("planner");
              plan["cost"].erase("over");
              plan["cost"]["lower_bound"] = 24;
              plan["cost"]["optimal"] = true;
            })),
            done("standard input:1: plan verified: 2 steps, cost 24 (paper), peak 24 of 24 elements allowed; "
                 "optimal not checked: the plan names no planner\n"));
  EXPECT_EQ(
      verify(tampered([](Json& plan) { plan["cost"]["model"] = "seconds"; })),
      done("standard input:1: plan verified: 2 steps, cost 24 (seconds), peak 24 of 24 elements allowed; "
           "lower bound 12 not checked: costs by the model \"seconds\" are not judged: there are paper, volume\n"));
}

TEST(Verify, reports_as_json) {
  const std::string right = small_plan().dump();
  const std::string silent = tampered([](Json& plan) {
    plan["id"] = "mine";
    plan.erase("cost");
  });
  const std::string wrong = tampered([](Json& plan) { plan["memory"]["peak"] = 12; });
  EXPECT_EQ(
      run_retile({"verify", "-", "--json"}, right + "\n" + silent + "\n" + wrong),
      (ProcessResult{
          3,
          R"({"format":1,"id":"","line":1,"verified":true,"faults":[],"bound":{"verdict":"confirmed","reason":"gather-slice proves 12"}})"
          "\n"
          R"({"format":1,"id":"mine","line":2,"verified":true,"faults":[]})"
          "\n"
          R"({"format":1,"id":"","line":3,"verified":false,"faults":["memory: peak is 24, not 12"]})"
          "\n",
          "standard input:3: error: memory: peak is 24, not 12\n"}));
}

// --- Plans that are wrong.

struct WrongCase {
  std::function<void(Json& plan)> tamper;
  std::string faults;
};

void expect_wrong(const WrongCase& wrong) { EXPECT_EQ(verify(tampered(wrong.tamper)), failure(wrong.faults)); }

TEST(VerifyWrong, bounds_that_the_planner_does_not_prove) {
  expect_wrong(
      {[](Json& plan) {
         plan["cost"].erase("over");
         plan["cost"]["lower_bound"] = 24;
         plan["cost"]["optimal"] = true;
       },
       "standard input:1: error: cost: optimal refuted: gather-slice proves 12, and no more with any effort\n"});
  expect_wrong({[](Json& plan) {
                  plan["planner"] = "paper";
                  plan["cost"].erase("over");
                  plan["cost"]["lower_bound"] = 20;
                },
                "standard input:1: error: cost: lower bound 20 refuted: paper has a plan that costs 12\n"});
  expect_wrong({[](Json& plan) { plan["cost"]["lower_bound"] = 20; },
                "standard input:1: error: cost: lower bound 20 refuted: over all plans no more than 12 is proved\n"});
}

TEST(VerifyWrong, a_peak_above_the_bound) {
  expect_wrong({[](Json& plan) { plan["memory"]["bound"] = 12; },
                "standard input:1: error: memory: the peak of 24 is above the bound of 12\n"});
}

TEST(VerifyWrong, devices_that_lack_something_are_named) {
  expect_wrong(
      {[](Json& plan) {
         plan["steps"][0]["groups"] = {{0, 1}, {2, 3}};
       },
       R"(standard input:1: error: step 0 (allgather): device 0 lacks [2:4, 0:6] of its box [0:4, 0:6]; its group held [0:2, 0:6], [0:2, 0:6]
standard input:1: error: step 0 (allgather): device 1 lacks [2:4, 0:6] of its box [0:4, 0:6]; its group held [0:2, 0:6], [0:2, 0:6]
standard input:1: error: step 0 (allgather): device 2 lacks [0:2, 0:6] of its box [0:4, 0:6]; its group held [2:4, 0:6], [2:4, 0:6]
standard input:1: error: step 0 (allgather): device 3 lacks [0:2, 0:6] of its box [0:4, 0:6]; its group held [2:4, 0:6], [2:4, 0:6]
)"});
}

TEST(VerifyWrong, offsets) {
  expect_wrong({[](Json& plan) {
                  plan["steps"][1]["offsets"][0] = {0, 3};
                },
                R"(standard input:1: error: step 1 (dynslice): some tiles have more holders than others
standard input:1: error: after the last step device 0 holds [0:4, 3:6], and its target is [0:4, 0:3]
)"});
  expect_wrong({[](Json& plan) {
                  plan["steps"][1]["offsets"][3] = {0, 2};
                },
                "standard input:1: error: step 1 (dynslice): "
                "device 3 has offset [0, 2], which is not on the grid of tiles of [4, 3]\n"});
  expect_wrong({[](Json& plan) {
                  plan["steps"][1]["offsets"][3] = {0, 9};
                },
                "standard input:1: error: step 1 (dynslice): "
                "device 3 has offset [0, 9], outside the array's shape [4, 6]\n"});
}

TEST(VerifyWrong, groups) {
  expect_wrong({[](Json& plan) {
                  plan["steps"][0]["groups"] = {{0, 2}, {1}};
                },
                "standard input:1: error: step 0 (allgather): device 3 is in no group\n"});
  expect_wrong({[](Json& plan) {
                  plan["steps"][0]["groups"] = {{0, 2}, {1, 2}};
                },
                "standard input:1: error: step 0 (allgather): device 2 is in two groups\n"});
  expect_wrong({[](Json& plan) {
                  plan["steps"][0]["groups"] = {{0, 2}, {1, 4}};
                },
                "standard input:1: error: step 0 (allgather): there is no device 4\n"});
  expect_wrong({[](Json& plan) {
                  plan["steps"][0]["groups"] = Json::array({Json::array({0, 1, 2, 3})});
                },
                "standard input:1: error: step 0 (allgather): "
                "the group of device 0 has 4 members, and its moves need 2\n"});
}

TEST(VerifyWrong, ends) {
  expect_wrong({[](Json& plan) { plan["steps"].erase(1); },
                "standard input:1: error: after the last step the local shape is [4, 6], and the target has [4, 3]\n"});
  expect_wrong({[](Json& plan) { plan["target"] = "[4, 6, 1]"; },
                "standard input:1: error: "
                "source and target have different global shapes: [4, 6] and [4, 6, 1]\n"});
}

TEST(VerifyWrong, cost_and_memory) {
  expect_wrong({[](Json& plan) {
                  plan["memory"]["peak"] = 12;
                  plan["steps"][0]["cost"] = 23;
                  plan["cost"]["optimal"] = true;
                  plan["cost"]["floor"] = 5;
                },
                R"(standard input:1: error: memory: peak is 24, not 12
standard input:1: error: step 0 (allgather): it costs 24, not 23
standard input:1: error: cost: the steps sum up to 23, not 24
standard input:1: error: cost: called optimal, with a lower bound of 12 below 24
standard input:1: error: cost: the floor is 6, not 5
)"});
}

TEST(VerifyWrong, one_of_many_is_told_with_its_line) {
  const std::string wrong = tampered([](Json& plan) { plan["memory"]["peak"] = 12; });
  const std::string right = small_plan().dump();
  EXPECT_EQ(verify(right + "\n" + wrong + "\n{}\n" + right),
            (ProcessResult{3, verified("standard input:1") + verified("standard input:4"),
                           R"(standard input:2: error: memory: peak is 24, not 12
standard input:3:1: error: the plan has no "source"
    3 | {}
      | ^~
)"}));
}

// --- Text that is no plan.

TEST(VerifyFault, among_plans_that_are_right) {
  EXPECT_EQ(
      verify(small_plan().dump() + "\nplan\n"),
      (ProcessResult{1, verified("standard input:1"),
                     R"(standard input:2:1: error: malformed JSON: syntax error while parsing value - invalid literal
    2 | plan
      | ^
)"}));
}

TEST(VerifyFault, is_shown_in_its_place) {
  const auto pretty = [](const std::function<void(Json & plan)>& tamper) {
    return Json::parse(tampered(tamper)).dump(1);
  };
  EXPECT_EQ(verify(pretty([](Json& plan) { plan["source"] = "[2{c}4, 6]"; })),
            input_fault(R"(standard input:8:16: error: unknown axis c
    8 |  "source": "[2{c}4, 6]",
      |                ^
hint: the mesh has a, b
)"));
  EXPECT_EQ(verify(pretty([](Json& plan) { plan["cost"]["optimal"] = "yes"; })),
            input_fault(R"(standard input:16:14: error: "optimal" must be true or false, not a string
   16 |   "optimal": "yes",
      |              ^~~~~
)"));
  EXPECT_EQ(verify(pretty([](Json& plan) { plan["steps"][0]["op"] = "allreduce"; })),
            input_fault(R"(standard input:28:10: error: unknown step "allreduce"
   28 |    "op": "allreduce",
      |          ^~~~~~~~~~~
hint: steps are dynslice, alltoall, allgather, allpermute, exchange and reduce
)"));
}

TEST(VerifyFault, plans_without_their_lists_cannot_be_checked) {
  const std::string plan =
      run_retile({"plan", "--planner", "gather-slice", "--mesh", "x=4097", "[1{x}4097]", "[4097]", "--json"}).output;
  const ProcessResult result = verify(plan);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output, "");
  const std::vector<std::string> lines = lines_of(result.errors);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_TRUE(lines[0].ends_with(": error: a step without offsets or boxes cannot be checked")) << lines[0];
  EXPECT_EQ(lines[3], "hint: above 4096 devices they are left out; make the plan with --full");
}

TEST(VerifyFault, cut_off_half_way) {
  EXPECT_EQ(verify("{\"mesh\": {\"a\": 2},\n \"source\": \"[2{a"),
            input_fault(R"(standard input:2:17: error: malformed JSON: )"
                        R"(syntax error while parsing value - invalid string: missing closing quote
    2 |  "source": "[2{a
      |                 ^
)"));
}

TEST(VerifyFault, nothing_to_verify) {
  const ProcessResult none = input_fault(R"(standard input:1:1: error: there are no plans in this file
    1 | 
      | ^
hint: each line is one, as JSON
)");
  EXPECT_EQ(verify(""), none);
  EXPECT_EQ(verify("\n \n"), none);
}

TEST(VerifyFault, files_that_cannot_be_read) {
  const TemporaryFolder folder;
  EXPECT_EQ(folder.run_retile({"verify", "missing.json"}),
            input_fault("error: cannot read 'missing.json': No such file or directory\n"));
  EXPECT_EQ(folder.run_retile({"verify", "."}), input_fault("error: cannot read '.': Is a directory\n"));
  folder.write("problem.json", "{\"mesh\": {\"a\": 2}, \"shape\": [4]}\n");
  EXPECT_EQ(folder.run_retile({"verify", "problem.json"}),
            input_fault(R"(problem.json:1:1: error: the plan has no "source"
    1 | {"mesh": {"a": 2}, "shape": [4]}
      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
)"));
}

// --- What a step says of its tiles.

std::string changed_plan(const std::string& problem, const std::function<void(Json& plan)>& tamper) {
  Json plan = Json::parse(run_retile({"plan", "--problems", "-", "--json"}, problem).output);
  EXPECT_EQ(verify(plan.dump()).status, 0);
  tamper(plan);
  return plan.dump();
}

TEST(VerifyTiles, local_out_beside_boxes) {
  const std::string problem = R"({"id": "p", "mesh": {"x": 2}, "shape": [5], "src": [[]], "dst": [["x"]]})";
  const std::string wrong = changed_plan(problem, [](Json& plan) {
    ASSERT_TRUE(plan["steps"][0].contains("boxes"));
    plan["steps"][0]["local_out"] = {99};
  });
  EXPECT_EQ(verify(wrong),
            failure("standard input:1: error: step 0 (dynslice): local_out is [99], and the devices hold [3]\n"));
}

// A tile that runs past the array is not cut off where the array ends.
TEST(VerifyTiles, beyond_the_array) {
  const std::string sum = R"({"id": "p", "mesh": {"x": 2}, "shape": [4], "src": [[]], "dst": [[]], "src_sum": ["x"]})";
  const std::string wrong = changed_plan(sum, [](Json& plan) {
    Json& last = plan["steps"].back();
    ASSERT_TRUE(last.contains("offsets"));
    last["local_out"] = {9};
  });
  EXPECT_EQ(verify(wrong).status, 3);
  EXPECT_NE(verify(wrong).errors.find("tiles of [9] do not divide the array's shape [4]"), std::string::npos)
      << verify(wrong).errors;
  const std::string uneven = R"({"id": "p", "mesh": {"x": 2}, "shape": [5], "src": [["x"]], "dst": [[]]})";
  const std::string long_tile = changed_plan(uneven, [](Json& plan) {
    Json& last = plan["steps"].back();
    last.erase("boxes");
    last["offsets"] = Json::parse("[[0], [0]]");
    last["local_out"] = {7};
  });
  EXPECT_NE(verify(long_tile).errors.find("tiles of [7] do not divide the array's shape [5]"), std::string::npos)
      << verify(long_tile).errors;
}

TEST(VerifyTiles, of_several_boxes_in_a_view) {
  const std::string problem = R"({"id": "p", "mesh": {"y": 6}, "shape": [6], "src": [[]], "dst": [[], ["y"]], )"
                              R"("dst_view": [[3, 2]]})";
  const std::string wrong = changed_plan(problem, [](Json& plan) {
    Json& held = plan["steps"][0]["boxes"][0];
    held.push_back(held[0]);
  });
  EXPECT_EQ(verify(wrong).status, 3) << verify(wrong).errors;
}

}  // namespace
}  // namespace retile::test
