#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

const std::string remark =
    "relabelled to [4{y}8] on [0, 2, 1, 3]: 16 of 16 elements stay on their devices, 8 in the order that was given\n";
const std::vector<std::string> swapped{"--mesh", "x=2,y=2", "[4{x}8]", "[4{y}8]", "--relabel"};

TEST(Relabel, shows_the_plan_to_the_order_that_keeps_most) {
  EXPECT_EQ(run_retile(with({"plan"}, swapped)), (ProcessResult{0,
                                                                R"(mesh {x: 2, y: 2}  // planner wide
  [4{x}8]  // 4 elements per device
    // nothing to do
// cost 0 (paper, optimal over all plans), floor 0
// peak 4 elements per device, no more than the larger of source and target
)",
                                                                remark}));
}

TEST(Relabel, puts_the_devices_into_the_plans_json) {
  const ProcessResult result = run_retile(with({"plan", "--json"}, swapped));
  const Json plan = Json::parse(result.output);
  EXPECT_EQ(plan["target"], "[4{y}8] on [0, 2, 1, 3]");
  EXPECT_EQ(plan["dst_devices"], Json({0, 2, 1, 3}));
  EXPECT_EQ(run_retile({"verify", "-"}, result.output).status, 0);
  const Json given = Json::parse(run_retile({"plan", "--json", "--mesh", "x=2,y=2", "[4{x}8]", "[4{y}8]"}).output);
  EXPECT_FALSE(given.contains("dst_devices"));
}

TEST(Relabel, prints_the_order_in_the_notation_of_the_target) {
  EXPECT_EQ(
      run_retile({"plan", "--mesh", "Mesh('x': 2, 'y': 2)", "--shape", "f32[8]", "P('x')", "P('y')", "--relabel"}),
      (ProcessResult{0,
                     R"(// P('x') is [4{x}8] on mesh {x: 2, y: 2}, devices 0 to 3 with y fastest
// P('y'), relabelled, is [4{y}8] on [0, 2, 1, 3] on mesh {x: 2, y: 2}
// jax mesh: Mesh('x': 2, 'y': 2)
// jax source: PartitionSpec('x',)
// jax target mesh: Mesh(device_ids=array([[0, 2], [1, 3]]), axis_names=('x', 'y'))
// jax target: PartitionSpec('y',)
mesh {x: 2, y: 2}  // planner wide
  [4{x}8]  // 4 elements per device
    // nothing to do
// cost 0 (paper, optimal over all plans), floor 0
// peak 4 elements per device, no more than the larger of source and target
)",
                     remark}));
  for (const char* notation : {"xla", "jax", "shardy", "dtensor"}) {
    const ProcessResult result = run_retile(with({"plan", "--notation", notation}, swapped));
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_NE(result.output.find(std::string("// ") + notation + " target: "), std::string::npos) << result.output;
  }
}

TEST(Relabel, goes_with_runs_pictures_explanations_and_code) {
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"run"}, {"draw", "--as", "text"}, {"explain"}, {"emit", "--as", "mpi"}}) {
    const ProcessResult result = run_retile(with(command, swapped));
    EXPECT_EQ(result.status, 0) << command[0] << result.errors;
    EXPECT_NE(result.errors.find(remark), std::string::npos) << command[0];
  }
  EXPECT_NE(run_retile(with({"run"}, swapped)).output.find(" verified, "), std::string::npos);
}

TEST(Relabel, names_the_problems_of_a_file) {
  const std::string line = R"({"id": "swap", "mesh": {"x": 2, "y": 2}, "shape": [8], "src": [["x"]], "dst": [["y"]]})";
  EXPECT_EQ(run_retile({"plan", "--problems", "-", "--relabel"}, line).errors, "swap: " + remark);
}

TEST(Relabel, of_a_thousand_devices_takes_no_time) {
  const ProcessResult result =
      run_retile_quickly({"plan", "--mesh", "x=32,y=32", "[32{x}1024, 32{y}1024]", "[1{y,x}1024, 1024]", "--relabel"});
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST(Relabel, says_where_it_does_not_go) {
  EXPECT_EQ(run_retile(with({"plan", "--planner", "xla"}, swapped)),
            usage_fault("retile: --relabel goes with planners of retile: XLA keeps the order of devices\n"
                        "Try 'retile plan --help'.\n"));
  EXPECT_EQ(run_retile({"run", "examples/chain.spmd", "--relabel"}),
            usage_fault("retile: --relabel goes with SRC and DST; a program has its own layouts\n"
                        "Try 'retile run --help'.\n"));
  EXPECT_EQ(run_retile({"explain", "-", "--relabel"}, "a log"),
            usage_fault("retile: --relabel goes with SRC and DST, or --problems FILE\n"
                        "Try 'retile explain --help'.\n"));
  EXPECT_EQ(run_retile({"plan", "--mesh", "x=4", "[8] sum {x}", "[2{x}8]", "--relabel"}),
            input_fault("error: a sum is not relabelled\n"
                        "hint: redistribute it to tiles first, then relabel these\n"));
}

}  // namespace
}  // namespace retile::test
