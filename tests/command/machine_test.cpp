// --machine: plans that are timed and chosen for a machine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;

const std::string gigabit = std::string(RETILE_SOURCE_DIR) + "/examples/machines/gigabit-4.json";
const std::string node = std::string(RETILE_SOURCE_DIR) + "/examples/machines/h100-node.json";

const std::vector<std::string> rows_to_columns{"--mesh",    "x=4,y=2", "[256{y,x}2048, 512]", "[2048, 64{y,x}512]",
                                               "--machine", gigabit};
const std::string summary =
    "takes 6.71 ms on four hosts on gigabit Ethernet, 6.66 ms of it host 0's link out; no plan takes less than "
    "6.71 ms";

// What is gathered crosses links that a first step has relieved; on one host, one exchange is faster.
TEST(Machine, decides_which_plan_is_taken) {
  const std::vector<std::string> problem{"plan", "--mesh", "a=2,b=2,c=2", "[256, 84{c}168, 156{a,b}624]",
                                         "[256, 84{b}168, 624]"};
  EXPECT_EQ(run_retile(with(problem, {"--machine", gigabit})), done(R"(mesh {a: 2, b: 2, c: 2}  // planner wide
  [256, 84{c}168, 156{a,b}624]  //  3,354,624 elements per device
    -> exchange  // 114 ms: host 0's link out
  [256, 84{b}168, 156{a,c}624]  //  3,354,624
    -> allgather(2; 4)  // 229 ms: host 0's link out
  [256, 84{b}168, 624]          // 13,418,496
// takes 343 ms on four hosts on gigabit Ethernet, 341 ms of it host 0's link out; no plan takes less than 341 ms
// peak 13,418,496 elements per device, no more than the larger of source and target
)"));
  EXPECT_THAT(run_retile(with(problem, {"--machine", node})).output, HasSubstr("// planner direct\n"));
}

TEST(Machine, times_plans_that_are_chosen_by_elements) {
  EXPECT_EQ(run_retile(with({"plan", "--cost", "paper"}, rows_to_columns)), done(R"(mesh {x: 4, y: 2}  // planner wide
  [256{y,x}2048, 512]  // 131,072 elements per device
    -> alltoall(0 -> 1; 8)  // cost 131,072, 6.71 ms: host 0's link out
  [2048, 64{y,x}512]   // 131,072
// cost 131,072 (paper, optimal over all plans), floor 114,688
// )" + summary + R"(
// peak 131,072 elements per device, no more than the larger of source and target
)"));
  EXPECT_THAT(run_retile(with({"plan", "--planner", "xla"}, rows_to_columns)).output, HasSubstr("// " + summary));
}

TEST(Machine, puts_seconds_beside_costs_in_a_plans_json) {
  const ProcessResult result = run_retile(with({"plan", "--json"}, rows_to_columns));
  const Json plan = Json::parse(result.output);
  EXPECT_EQ(plan["cost"]["model"], "seconds");
  EXPECT_EQ(plan["seconds"].dump(),
            R"({"machine":"four hosts on gigabit Ethernet","total":0.006714677966,"lower_bound":0.006714677966,)"
            R"("waits_for":"host 0's link out","bound_by":"host 0's link in"})");
  EXPECT_EQ(plan["steps"][0]["seconds"], plan["seconds"]["total"]);
  EXPECT_EQ(plan["steps"][0]["waits_for"], "host 0's link out");
  EXPECT_EQ(run_retile({"verify", "-"}, result.output).status, 0);
}

TEST(Machine, is_told_of_by_explanations_pictures_and_code) {
  EXPECT_THAT(run_retile(with({"explain"}, rows_to_columns)).output, HasSubstr("\n  It " + summary + ".\n"));
  EXPECT_THAT(run_retile(with({"emit", "--as", "mpi"}, rows_to_columns)).output, HasSubstr("// " + summary + "\n"));
  EXPECT_THAT(run_retile(with({"emit", "--as", "jax"}, rows_to_columns)).output, HasSubstr("// " + summary + "\n"));
  const std::string step = "It takes 6.71 ms, 6.66 ms of it host 0";
  EXPECT_THAT(run_retile(with({"draw"}, rows_to_columns)).output, HasSubstr(step));
  EXPECT_THAT(run_retile(with({"draw", "--as", "text"}, rows_to_columns)).output, HasSubstr(step));
}

TEST(Machine, chooses_the_plan_that_is_run) {
  const ProcessResult result = run_retile(with({"run"}, rows_to_columns));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr(" verified, "));
}

// --- Transfers.

const std::string large_array =
    R"({"name": "w", "mesh": {"x": 8}, "shape": [1024, 1024], "src": [["x"], []], "dst": [[], ["x"]]})";

TEST(Machine, times_transfers) {
  EXPECT_EQ(run_retile({"transfer", "-", "--max-bytes", "1MiB", "--dry-run", "--machine", gigabit}, large_array),
            done("1 array of 1 kind on 8 devices, 3,670,016 bytes to move\n"
                 "sent      458,752 bytes, 8 devices; at least 458,752 by the busiest, gap 0.000 %\n"
                 "received  458,752 bytes, 8 devices; what each lacks, once\n"
                 "rounds    2, 112 messages\n"
                 "hosts     4, 786,432 bytes into each, once; 0 rounds to pass on\n"
                 "peak      1,966,080 bytes per device at most: 1,048,576 of tiles, 917,504 staged (cap 1,048,576)\n"
                 "time      6.71 ms, 6.66 ms of it host 0's link out; no transfer takes less than 6.71 ms\n"));
  const Json plan = Json::parse(
      run_retile({"transfer", "-", "--max-bytes", "1MiB", "--dry-run", "--machine", gigabit, "--json"}, large_array)
          .output);
  EXPECT_EQ(plan["seconds"].dump(),
            R"({"total":0.006714677966,"lower_bound":0.006714677966,"waits_for":"host 0's link out"})");
}

TEST(Machine, has_messages_of_transfers_that_its_links_want) {
  TemporaryFolder folder;
  folder.write("fast.json", R"({"hosts": [[0, 1, 2, 3], [4, 5, 6, 7]], "inside": {"rate": 4e11, "latency": 2e-6},
                                "link": {"out": 4e11, "in": 4e11, "latency": 1e-5}})");
  folder.write("w.jsonl",
               R"({"name": "w", "mesh": {"x": 8}, "shape": [4096, 4096], "src": [["x"], []], "dst": [[], ["x"]]})");
  const std::vector<std::string> transfer{"transfer", "w.jsonl", "--max-bytes", "64MiB"};
  EXPECT_THAT(folder.run_retile(with(transfer, {"--hosts", "2", "--dry-run"})).output,
              HasSubstr("rounds    8, 448 messages\n"));
  for (const char* how : {"--dry-run", "--repeat=1"}) {
    const ProcessResult result = folder.run_retile(with(transfer, {"--machine", "fast.json", how}));
    EXPECT_THAT(result.output, HasSubstr("rounds    1, 56 messages\n")) << how;
    EXPECT_THAT(result.output, HasSubstr("\ntime      ")) << how;
  }
}

TEST(Machine, says_the_hosts_of_transfers) {
  EXPECT_EQ(run_retile({"transfer", "-", "--max-bytes", "1MiB", "--machine", gigabit, "--dry-run", "--hosts", "2"},
                       large_array),
            usage_fault("retile: --machine names the hosts: leave out --hosts\nTry 'retile transfer --help'.\n"));
}

// --- Machines that are at fault.

TEST(Machine, of_other_devices_is_refused_where_its_hosts_are_listed) {
  TemporaryFolder folder;
  folder.write("two.json", "{\"hosts\": [[0, 1]],\n \"inside\": {\"rate\": 1e9}}\n");
  const ProcessResult fault = input_fault(
      "two.json:1:11: error: the machine has 2 devices, and the problem 4\n"
      "    1 | {\"hosts\": [[0, 1]],\n"
      "      |           ^~~~~~~~\n");
  const std::vector<std::string> problem{"--mesh", "x=4", "[2{x}8]", "[8]", "--machine", "two.json"};
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"plan"}, {"run"}, {"draw"}, {"explain"}, {"emit", "--as", "mpi"}}) {
    EXPECT_EQ(folder.run_retile(with(command, problem)), fault) << command[0];
  }
  EXPECT_EQ(folder.run_retile(with({"plan", "--planner", "xla"}, problem)), fault);
  folder.write("manifest.jsonl", R"({"name": "w", "mesh": {"x": 4}, "shape": [8], "src": [["x"]], "dst": [[]]})");
  EXPECT_EQ(folder.run_retile({"transfer", "manifest.jsonl", "--dry-run", "--machine", "two.json"}), fault);
}

TEST(Machine, tells_all_that_is_wrong_with_its_file) {
  TemporaryFolder folder;
  folder.write("wrong.json",
               "{\"format\": 1, \"hosts\": [[0, 1], [1, 3]],\n"
               " \"link\": {\"out\": 0, \"in\": [1e9, -1], \"speed\": 3},\n"
               " \"inside\": {\"rate\": 1e9, \"latency\": -1}}\n");
  EXPECT_EQ(folder.run_retile({"plan", "--mesh", "x=4", "[2{x}8]", "[8]", "--machine", "wrong.json"}),
            input_fault("wrong.json:2:38: error: unknown key \"speed\"\n"
                        "    2 |  \"link\": {\"out\": 0, \"in\": [1e9, -1], \"speed\": 3},\n"
                        "      |                                      ^~~~~~~\n"
                        "hint: there are out, in, latency\n"
                        "wrong.json:1:34: error: device 1 is listed twice\n"
                        "    1 | {\"format\": 1, \"hosts\": [[0, 1], [1, 3]],\n"
                        "      |                                  ^\n"
                        "hint: a device is on one host\n"
                        "wrong.json:3:37: error: \"latency\" is negative\n"
                        "    3 |  \"inside\": {\"rate\": 1e9, \"latency\": -1}}\n"
                        "      |                                     ^~\n"
                        "hint: times are in seconds\n"
                        "wrong.json:2:18: error: \"out\" must be above 0\n"
                        "    2 |  \"link\": {\"out\": 0, \"in\": [1e9, -1], \"speed\": 3},\n"
                        "      |                  ^\n"
                        "hint: rates are in bytes a second\n"));
}

TEST(Machine, that_is_missing_is_asked_for) {
  EXPECT_EQ(run_retile({"plan", "--mesh", "x=4", "[2{x}8]", "[8]", "--machine", "nowhere.json"}),
            input_fault("error: cannot read 'nowhere.json': No such file or directory\n"));
  EXPECT_EQ(run_retile({"plan", "--mesh", "x=4", "[2{x}8]", "[8]", "--cost", "seconds"}),
            usage_fault("retile: --cost seconds needs a machine: add --machine FILE (docs/machines.md)\n"
                        "Try 'retile plan --help'.\n"));
}

// --- Benchmarks.

TEST(Machine, is_what_benchmarks_choose_for_and_predict_by) {
  TemporaryFolder folder;
  folder.write(
      "problem.jsonl",
      R"({"id": "p", "mesh": {"x": 4, "y": 2}, "shape": [512, 512], "src": [["y", "x"], []], "dst": [[], ["y", "x"]]})");
  const auto bench = [&](const std::vector<std::string>& more) {
    return folder.run_retile(
        with({"bench", "--problems", "problem.jsonl", "--repeat", "1", "--out", "out.jsonl"}, more));
  };
  const std::vector<std::string> on_machine{"--machine", gigabit, "--contenders", "auto,wide,dtensor-costs,memcpy"};
  EXPECT_EQ(bench(on_machine), done("1 of 1 problems, 4 new results in out.jsonl\n"));
  EXPECT_EQ(bench(on_machine), done("1 of 1 problems, 0 new results in out.jsonl\n"));
  const std::vector<std::string> lines = lines_of(run_process({"/bin/cat", folder.path() + "/out.jsonl"}).output);
  EXPECT_THAT(std::string(Json::parse(lines.at(0))["run"]["options"]["machine"]), HasSubstr("gigabit Ethernet"));
  EXPECT_EQ(Json::parse(lines.at(1))["steps"], Json({"exchange"}));
  EXPECT_EQ(Json::parse(lines.at(2))["steps"], Json({"alltoall(0 -> 1; 8)"}));
  const double predicted = Json::parse(lines.at(1))["predicted"];
  EXPECT_GT(predicted, 1e-3);
  EXPECT_EQ(Json::parse(lines.at(2))["predicted"], predicted);
  EXPECT_GE(Json::parse(lines.at(3))["predicted"], predicted);  // on the machine, whatever it was chosen by
  EXPECT_LE(Json::parse(lines.at(1))["least_predicted"], predicted);
  EXPECT_FALSE(Json::parse(lines.at(4)).contains("predicted"));
  EXPECT_EQ(bench({"--contenders", "dtensor-costs"}),
            usage_fault("retile: dtensor-costs needs a machine: add --machine FILE (docs/machines.md)\n"
                        "Try 'retile bench --help'.\n"));
}

}  // namespace
}  // namespace retile::test
