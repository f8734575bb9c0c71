#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

// With the planner that these texts were written for: which one is the default is not for these tests.
ProcessResult plan(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), {"plan", "--planner", "gather-slice"});
  return run_retile(std::move(arguments), input);
}

// --- For people.

TEST(PlanText, simple_redistribution_of_the_paper) {
  const std::string steps = R"(mesh {devs: 32}  // planner gather-slice
  [32, 64{devs}2048]  //  2,048 elements per device
    -> allgather(1; 32)  // cost 65,536
  [32, 2048]          // 65,536
    -> dynslice(0; 32)  // cost 0
  [1{devs}32, 2048]   //  2,048
// cost 65,536 (paper, lower bound 2,048 over all plans), floor 1,984
// peak 65,536 elements per device, 32.00 times the larger of source and target
)";
  EXPECT_EQ(plan({"--mesh", "devs=32", "[32, 64{devs}2048]", "[1{devs}32, 2048]"}), done(steps));
  const std::string line = lines_of(read_source_file("examples/paper.jsonl"))[0];
  const std::string named = "// fig:simple-redist, planner";
  EXPECT_EQ(plan({"--problems", "-"}, line), done(std::string(steps).replace(steps.find("// planner"), 10, named)));
}

TEST(PlanText, first_adversarial_problem_of_the_paper) {
  const std::string line = lines_of(read_source_file("examples/paper.jsonl"))[7];
  EXPECT_EQ(plan({"--problems", "-"}, line),
            done(R"(mesh {a: 2, b: 2, c: 2}  // tbl:adversarial, P1, planner gather-slice
  [360, 184{c}368, 320]         // 21,196,800 elements per device
    -> allgather(1; 2)  // cost 42,393,600
  [360, 368, 320]               // 42,393,600
    -> dynslice(0; 4)  // cost 0
  [90{c,a}360, 368, 320]        // 10,598,400
    -> dynslice(2; 2)  // cost 0
  [90{c,a}360, 368, 160{b}320]  //  5,299,200
// cost 42,393,600 (paper, lower bound 5,299,200 over all plans), floor 2,649,600
// peak 42,393,600 elements per device, 2.00 times the larger of source and target
)"));
}

// The figure that two planners read differently: one dimension at a time, or two at once.
TEST(PlanText, oversharding_of_the_paper) {
  const std::string line = lines_of(read_source_file("examples/paper.jsonl"))[6];
  EXPECT_EQ(run_retile({"plan", "--planner", "paper", "--problems", "-"}, line),
            done(R"(mesh {x: 4, y: 2, z: 4}  // fig:oversharding, planner paper
  [1{y,x}8, 8, 8, 4]        // 256 elements per device
    -> dynslice(3; 4)  // cost 0
  [1{y,x}8, 8, 8, 1{z}4]    //  64
    -> alltoall(0 -> 1; 2)  // cost 64
  [2{x}8, 4{y}8, 8, 1{z}4]  //  64
    -> alltoall(0 -> 2; 4)  // cost 64
  [8, 4{y}8, 2{x}8, 1{z}4]  //  64
    -> allgather(3; 4)  // cost 256
  [8, 4{y}8, 2{x}8, 4]      // 256
// cost 384 (paper, optimal over the paper's collectives), floor 224
// peak 256 elements per device, no more than the larger of source and target
)"));
  const ProcessResult wide = done(R"(mesh {x: 4, y: 2, z: 4}  // fig:oversharding, planner wide
  [1{y,x}8, 8, 8, 4]    // 256 elements per device
    -> alltoall(0 -> 1; 2, 0 -> 2; 4)  // cost 256
  [8, 4{y}8, 2{x}8, 4]  // 256
// cost 256 (paper, optimal over all plans), floor 224
// peak 256 elements per device, no more than the larger of source and target
)");
  EXPECT_EQ(run_retile({"plan", "--planner", "wide", "--problems", "-"}, line), wide);
  EXPECT_EQ(run_retile({"plan", "--problems", "-"}, line), wide);
}

TEST(PlanText, plans_stand_apart) {
  const std::string nothing = R"(  [8]  // 8 elements per device
    // nothing to do
// cost 0 (paper, optimal over all plans), floor 0
// peak 8 elements per device, no more than the larger of source and target
)";
  const std::string line = R"({"mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]]})";
  EXPECT_EQ(plan({"--problems", "-"}, line + "\r\n\n" + line),
            done("mesh {x: 4}  // line-1, planner gather-slice\n" + nothing +
                 "\nmesh {x: 4}  // line-3, planner gather-slice\n" + nothing));
}

TEST(PlanText, arrays_without_dimensions_have_one_element) {
  EXPECT_EQ(plan({"--mesh", "x=4", "[]", "[]"}), done(R"(mesh {x: 4}  // planner gather-slice
  []  // 1 element per device
    // nothing to do
// cost 0 (paper, optimal over all plans), floor 0
// peak 1 element per device, no more than the larger of source and target
)"));
}

TEST(PlanText, costs_are_of_the_model_that_was_asked_for) {
  EXPECT_EQ(plan({"--mesh", "x=4", "[2{x}8]", "[8]", "--cost", "volume"}), done(R"(mesh {x: 4}  // planner gather-slice
  [2{x}8]  // 2 elements per device
    -> allgather(0; 4)  // cost 6
  [8]      // 8
// cost 6 (volume, optimal over all plans), floor 6
// peak 8 elements per device, no more than the larger of source and target
)"));
}

TEST(PlanText, an_id_cannot_steer_the_terminal) {
  const std::string line = R"({"id": "red\u001b[31m\n", "mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]]})";
  EXPECT_EQ(lines_of(plan({"--problems", "-"}, line).output).at(0), "mesh {x: 4}  // red [31m , planner gather-slice");
}

TEST(PlanText, largest_sizes_fit) {
  EXPECT_EQ(plan({"--mesh", "x=7", "[1317624576693539401{x}9223372036854775807]", "[9223372036854775807]"}),
            done(R"(mesh {x: 7}  // planner gather-slice
  [1317624576693539401{x}9223372036854775807]  // 1,317,624,576,693,539,401 elements per device
    -> allgather(0; 7)  // cost 9,223,372,036,854,775,807
  [9223372036854775807]                        // 9,223,372,036,854,775,807
// cost 9,223,372,036,854,775,807 (paper, optimal over all plans), floor 7,905,747,460,161,236,406
// peak 9,223,372,036,854,775,807 elements per device, no more than the larger of source and target
)"));
}

// --- For programs.

const std::vector<std::string> plan_keys = {"format",  "id",   "mesh",   "source",      "target",
                                            "planner", "cost", "memory", "planning_ns", "steps"};

std::vector<std::string> step_keys(const std::string& op) {
  if (op == "dynslice") return {"op", "moves", "local_in", "local_out", "cost", "offsets"};
  if (op == "allpermute") return {"op", "pairs", "local_in", "local_out", "cost", "offsets"};
  if (op == "exchange") return {"op", "groups", "transfers", "local_in", "local_out", "cost", "offsets"};
  return {"op", "moves", "groups", "local_in", "local_out", "cost", "offsets"};
}

std::vector<std::string> move_keys(const std::string& op) {
  return op == "alltoall" ? std::vector<std::string>{"from", "to", "factor"}
                          : std::vector<std::string>{"dim", "factor"};
}

void expect_plan_keys(const Json& json) {
  EXPECT_EQ(keys_of(json), plan_keys);
  EXPECT_EQ(keys_of(json["cost"]),
            (std::vector<std::string>{"model", "total", "lower_bound", "floor", "optimal", "over"}));
  EXPECT_EQ(keys_of(json["memory"]), (std::vector<std::string>{"source", "target", "bound", "peak"}));
  for (const Json& step : json["steps"]) {
    const std::string op = step["op"];
    EXPECT_EQ(keys_of(step), step_keys(op));
    for (const Json& move : step.value("moves", Json::array())) EXPECT_EQ(keys_of(move), move_keys(op));
  }
}

TEST(PlanJson, has_exactly_the_keys_of_the_format_in_order) {
  const std::string problems = read_source_file("examples/paper.jsonl");
  for (const std::string planner : {"wide", "paper", "direct", "gather-slice"}) {
    const ProcessResult result = run_retile({"plan", "--planner", planner, "--problems", "-", "--json"}, problems);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.errors, "");
    const std::vector<std::string> lines = lines_of(result.output);
    ASSERT_EQ(lines.size(), lines_of(problems).size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Json json = Json::parse(lines[i]);
      expect_plan_keys(json);
      EXPECT_EQ(json["id"], Json::parse(lines_of(problems)[i])["id"]);
      EXPECT_EQ(json["planner"], planner);
    }
  }
}

bool has_exchange(const std::string& plans) { return plans.find(R"("op":"exchange")") != std::string::npos; }

TEST(PlanJson, exchanges_can_be_avoided) {
  const std::string problems = RETILE_SOURCE_DIR "/examples/paper.jsonl";
  EXPECT_TRUE(has_exchange(run_retile({"plan", "--problems", problems, "--json"}).output));
  const ProcessResult result = run_retile({"plan", "--problems", problems, "--json", "--no-exchange"});
  EXPECT_EQ(result.status, 0);
  EXPECT_FALSE(has_exchange(result.output));
}

TEST(Plan, is_made_for_the_memory_that_a_run_may_take) {
  const auto status = [](const std::string& limit, const std::string& planner) {
    return run_retile({"plan", "--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]", "--dtype", "f64", "--memory-limit", limit,
                       "--planner", planner})
        .status;
  };
  for (const char* enough : {"256", "256B", "2x"}) EXPECT_EQ(status(enough, "auto"), 0) << enough;
  for (const char* too_little : {"255", "0.2KB", "1.9x"}) EXPECT_EQ(status(too_little, "auto"), 1) << too_little;
  EXPECT_EQ(status("256", "gather-slice"), 1);
}

TEST(PlanJson, is_one_line_word_for_word) {
  const ProcessResult result = plan({"--mesh", "y=2,x=2", "[2{x}4, 6]", "[4, 3{y}6]", "--json"});
  Json json = Json::parse(result.output);
  EXPECT_GE(json["planning_ns"], 0);
  json["planning_ns"] = 0;
  EXPECT_EQ(
      json.dump(),
      R"({"format":1,"id":"","mesh":{"y":2,"x":2},"source":"[2{x}4, 6]","target":"[4, 3{y}6]","planner":"gather-slice",)"
      R"("cost":{"model":"paper","total":24,"lower_bound":12,"floor":6,"optimal":false,"over":"all plans"},)"
      R"("memory":{"source":12,"target":12,"bound":24,"peak":24},"planning_ns":0,"steps":[)"
      R"({"op":"allgather","moves":[{"dim":0,"factor":2}],"groups":[[0,1],[2,3]],)"
      R"("local_in":[2,6],"local_out":[4,6],"cost":24,"offsets":[[0,0],[0,0],[0,0],[0,0]]},)"
      R"({"op":"dynslice","moves":[{"dim":1,"factor":2}],)"
      R"("local_in":[4,6],"local_out":[4,3],"cost":0,"offsets":[[0,0],[0,0],[0,3],[0,3]]}]})");
  EXPECT_EQ(lines_of(result.output).size(), 1U);
  EXPECT_TRUE(result.output.ends_with("}\n"));
}

TEST(PlanJson, keeps_ids_as_they_are) {
  const std::string line = R"({"id": "\u00e9\u001b\n\"", "mesh": {"x": 4}, "shape": [8], "src": [[]], "dst": [[]]})";
  EXPECT_EQ(Json::parse(plan({"--problems", "-", "--json"}, line).output)["id"], "é\x1b\n\"");
}

Json only_step_of(const std::vector<std::string>& arguments) {
  const ProcessResult result = plan(arguments);
  EXPECT_EQ(result.status, 0) << result.errors;
  const Json json = Json::parse(result.output);
  EXPECT_EQ(json["steps"].size(), 1U);
  return json["steps"][0];
}

TEST(PlanJson, lists_are_left_out_above4096_devices) {
  const Json listed = only_step_of({"--mesh", "x=4096", "[1{x}4096]", "[4096]", "--json"});
  EXPECT_EQ(keys_of(listed), step_keys("allgather"));
  EXPECT_EQ(listed["offsets"].size(), 4096U);

  const std::vector<std::string> large = {"--mesh", "x=4097", "[1{x}4097]", "[4097]", "--json"};
  EXPECT_EQ(keys_of(only_step_of(large)), (std::vector<std::string>{"op", "moves", "local_in", "local_out", "cost"}));

  std::vector<std::string> asked_for = large;
  asked_for.emplace_back("--full");
  const Json full = only_step_of(asked_for);
  EXPECT_EQ(keys_of(full), step_keys("allgather"));
  EXPECT_EQ(full["offsets"].size(), 4097U);
  EXPECT_EQ(full["groups"][0].size(), 4097U);
}

TEST(PlanJson, a_million_devices) {
  const Json step = only_step_of({"--mesh", "x=1048576", "[1{x}1048576]", "[1048576]", "--json"});
  EXPECT_EQ(step["cost"], 1048576);
}

// --- Meshes as large as they get: nothing may take time or memory per device.

TEST(PlanHugeMesh, takes_no_time) {
  EXPECT_EQ(run_retile_quickly({"plan", "--planner", "gather-slice", "--mesh", "x=2147483647", "[1{x}2147483647, 8]",
                                "[2147483647, 8]"}),
            done(R"(mesh {x: 2147483647}  // planner gather-slice
  [1{x}2147483647, 8]  //              8 elements per device
    -> allgather(0; 2147483647)  // cost 17,179,869,176
  [2147483647, 8]      // 17,179,869,176
// cost 17,179,869,176 (paper, optimal over all plans), floor 17,179,869,168
// peak 17,179,869,176 elements per device, no more than the larger of source and target
)"));
}

TEST(PlanHugeMesh, is_too_large_to_be_listed) {
  const std::vector<std::string> arguments = {"--mesh", "x=32768,y=65535", "[1{x}32768]", "[32768]", "--json"};
  EXPECT_EQ(keys_of(only_step_of(arguments)),
            (std::vector<std::string>{"op", "moves", "local_in", "local_out", "cost"}));
  std::vector<std::string> full = arguments;
  full.emplace_back("--full");
  EXPECT_EQ(plan(full), input_fault(R"(error: 2147450880 devices are too many for --full
hint: at most 4194304 are listed
)"));
}

TEST(Plan, a_mesh_without_axes_is_one_device) {
  const std::string expected = R"(mesh {}  // planner wide
  [8]  // 8 elements per device
    // nothing to do
// cost 0 (paper, optimal over all plans), floor 0
// peak 8 elements per device, no more than the larger of source and target
)";
  EXPECT_EQ(run_retile({"plan", "--mesh", "", "[8]", "[8]"}), done(expected));
  EXPECT_EQ(run_retile({"plan", "--mesh", "{}", "[8]", "[8]"}), done(expected));
  const std::string problem = R"({"mesh": {}, "shape": [8], "src": [[]], "dst": [[]]})";
  for (const std::string planner : {"wide", "paper", "direct", "gather-slice"}) {
    const ProcessResult plan = run_retile({"plan", "--json", "--planner", planner, "--problems", "-"}, problem);
    EXPECT_EQ(plan.status, 0) << plan.errors;
    EXPECT_EQ(run_retile({"verify", "-"}, plan.output).status, 0) << planner;
    for (const std::string engine : {"threads", "reference"}) {
      EXPECT_EQ(run_retile({"run", "--problems", "-", "--planner", planner, "--engine", engine}, problem).status, 0);
    }
  }
}

// The address sanitizer's own memory does not fit into such a limit.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Plan, without_memory_for_its_json_fails_and_keeps_earlier_results) {
  const std::string small = R"({"mesh": {"x": 2}, "shape": [4, 4], "src": [["x"], []], "dst": [[], ["x"]]})";
  const std::string large = R"({"mesh": {"x": 2048}, "shape": [2048, 2048], "src": [["x"], []], "dst": [[], ["x"]]})";
  for (const int kilobytes : {300000, 400000, 500000}) {
    const std::string command =
        "ulimit -v " + std::to_string(kilobytes) + "; exec $0 plan --problems - --planner direct --json";
    const ProcessResult result = run_process({"/bin/sh", "-c", command, RETILE_COMMAND}, {small + "\n" + large + "\n"});
    EXPECT_EQ(result.status, 3) << kilobytes << result.errors;
    EXPECT_EQ(lines_of(result.output).size(), 1U);
    EXPECT_TRUE(result.errors.ends_with("out of memory\n")) << result.errors;
  }
}
#endif

}  // namespace
}  // namespace retile::test
