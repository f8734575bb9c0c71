#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

class Bench : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  ProcessResult bench(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"bench", "--scale", "0.0001", "--repeat", "2", "--out", path_});
    return run_retile(std::move(arguments));
  }

  std::vector<nlohmann::json> lines() const {
    std::ifstream file(path_);
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }

  // "sample-0000 wide", in order.
  std::vector<std::string> results() const {
    std::vector<std::string> all;
    for (const nlohmann::json& line : lines()) {
      if (!line.contains("run"))
        all.push_back(line.at("id").get<std::string>() + " " + line.at("contender").get<std::string>());
    }
    return all;
  }

  const std::string path_ = testing::TempDir() + "retile_bench_" + std::to_string(getpid()) + ".jsonl";
};

TEST_F(Bench, writes_a_run_and_a_result_for_each_problem_and_contender) {
  const ProcessResult result = bench({"--samples", "3", "--contenders", "paper,wide", "--commit", "abc"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.output, "3 of 3 problems, 6 new results in " + path_ + "\n");
  EXPECT_EQ(results(), (std::vector<std::string>{"sample-0000 paper", "sample-0000 wide", "sample-0001 paper",
                                                 "sample-0001 wide", "sample-0002 paper", "sample-0002 wide"}));
  const nlohmann::json run = lines().front().at("run");
  EXPECT_EQ(run.at("commit"), "abc");
  EXPECT_EQ(run.at("engine"), "threads");
  EXPECT_EQ(run.at("devices"), 8);
  for (const nlohmann::json& line : lines()) {
    EXPECT_EQ(line.contains("run") ? 2U : line.at("seconds").size(), 2U);
  }
}

TEST_F(Bench, goes_on_where_it_was_and_neither_repeats_nor_loses_results) {
  EXPECT_EQ(bench({"--samples", "2", "--contenders", "paper,wide"}).status, 0);
  const std::uintmax_t size = std::filesystem::file_size(path_);
  std::filesystem::resize_file(path_, size - 5);  // stopped in the middle of a line
  EXPECT_EQ(bench({"--samples", "3", "--contenders", "paper,wide,memcpy"}).status, 0);
  const std::vector<std::string> all = results();
  EXPECT_EQ(all.size(), 9U);
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), 9U);
  const std::string before = all.back();
  EXPECT_THAT(bench({"--samples", "3", "--contenders", "paper,wide,memcpy"}).output,
              testing::StartsWith("3 of 3 problems, 0 new results"));
  EXPECT_EQ(results(), all);
}

TEST_F(Bench, takes_problems_from_a_file_and_the_papers_own) {
  const std::string problems = testing::TempDir() + "retile_bench_problems.jsonl";
  std::ofstream(problems)
      << R"({"id": "mine", "mesh": {"x": 3}, "shape": [9, 6], "src": [["x"], []], "dst": [[], ["x"]]})"
      << "\n";
  EXPECT_EQ(bench({"--problems", problems, "--adversarial", "--contenders", "paper"}).status, 0);
  EXPECT_EQ(results(), (std::vector<std::string>{"P1 paper", "P2 paper", "P3 paper", "P4 paper", "mine paper"}));
  std::filesystem::remove(problems);
}

TEST_F(Bench, stops_when_time_is_up) {
  const ProcessResult result = bench({"--samples", "1000000", "--time-limit", "0.2", "--contenders", "wide"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, testing::MatchesRegex("[0-9,]+ of 1,000,000 problems, .*\n"));
  EXPECT_LT(results().size(), 1000000U);
}

TEST_F(Bench, measures_other_settings_anew_in_the_same_file) {
  const std::vector<std::vector<std::string>> settings{
      {},
      {"--seed", "1"},
      {"--scale", "0.0002"},
      {"--dtype", "f64"},
      {"--axes", "4,2"},
      {"--rank", "2-3"},
      {"--threads", "3"},
      {"--engine", "reference"},
      {"--repeat", "3"},
  };
  const auto bench_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "--samples", "1", "--contenders", "wide", "--out", path_});
    for (const auto& [option, value] : {std::pair{"--scale", "0.0001"}, {"--repeat", "2"}}) {
      if (std::find(more.begin(), more.end(), option) == more.end()) more.insert(more.end(), {option, value});
    }
    return run_retile(more);
  };
  for (const std::vector<std::string>& more : settings) {
    EXPECT_EQ(bench_with(more), done("1 of 1 problems, 1 new results in " + path_ + "\n"))
        << testing::PrintToString(more);
  }
  for (const std::vector<std::string>& more : settings) {
    EXPECT_EQ(bench_with(more), done("1 of 1 problems, 0 new results in " + path_ + "\n"))
        << testing::PrintToString(more);
  }
}

TEST_F(Bench, refuses_another_problem_of_a_known_name) {
  const TemporaryFolder folder;
  const std::string start = R"({"id": "p", "mesh": {"x": 4}, "shape": [8, 8], "src": [["x"], []], "dst": [[], [)";
  const std::vector<std::string> command{"bench", "--problems", "p.jsonl", "--contenders", "paper", "--out", "r.jsonl"};
  folder.write("p.jsonl", start + "\"x:(2)2\"]]}\n");
  EXPECT_EQ(folder.run_retile(command), done("1 of 1 problems, 1 new results in r.jsonl\n"));
  EXPECT_EQ(folder.run_retile(command), done("1 of 1 problems, 0 new results in r.jsonl\n"));
  folder.write("p.jsonl", start + "\"x\"]]}\n");
  EXPECT_EQ(folder.run_retile(command),
            input_fault("error: r.jsonl has results of another problem called \"p\"\n"
                        "hint: name another file for the results, or call the problem differently\n"));
}

TEST_F(Bench, reports_what_is_refused_and_goes_on) {
  const TemporaryFolder folder;
  const std::string sum = R"({"id":"s","mesh":{"x":2},"src_sum":["x"],"shape":[4],"src":[[]],"dst":[["x"]]})";
  folder.write("p.jsonl", sum + "\n" + R"({"id":"t","mesh":{"x":2},"shape":[4],"src":[[]],"dst":[["x"]]})" + "\n");
  const std::vector<std::string> command{"bench",       "--problems", "p.jsonl", "--contenders",
                                         "wide,memcpy", "--out",      path_};
  ProcessResult expected =
      input_fault("p.jsonl:1:1: error: wide, memcpy: sums are not measured\n    1 | " + sum + "\n      | ^" +
                  std::string(sum.size() - 1, '~') + "\nhint: retile run adds and checks them\n");
  expected.output = "2 of 2 problems, 4 new results in " + path_ + "\n";
  EXPECT_EQ(folder.run_retile(command), expected);
  EXPECT_EQ(results(), (std::vector<std::string>{"s wide", "s memcpy", "t wide", "t memcpy"}));
  EXPECT_EQ(lines()[1].at("skipped"), "sums are not measured");
  EXPECT_FALSE(lines().back().contains("skipped"));
}

TEST_F(Bench, cannot_scale_what_is_no_type_and_goes_on) {
  const TemporaryFolder folder;
  const std::string end = R"("shape": [8, 8], "src": [[], []], "dst": [["x"], []]})";
  folder.write("p.jsonl", R"({"id": "uneven", "mesh": {"x": 3}, )" + end + "\n" +
                              R"({"id": "plain", "mesh": {"x": 2}, )" + end + "\n");
  const ProcessResult result =
      folder.run_retile({"bench", "--problems", "p.jsonl", "--contenders", "wide", "--scale", "0.5", "--out", path_});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, testing::StartsWith("p.jsonl:1:1: error: wide: "));
  EXPECT_EQ(result.output, "2 of 2 problems, 1 new results in " + path_ + "\n");
  EXPECT_EQ(results(), std::vector<std::string>{"plain wide"});
}

TEST_F(Bench, records_parts_of_axes_as_problem_files_name_them) {
  const TemporaryFolder folder;
  folder.write("p.jsonl", R"({"mesh": {"x": 4}, "shape": [8, 8], "src": [["x:(1)2"], []], "dst": [[], ["x:(2)2"]]})");
  EXPECT_EQ(folder.run_retile({"bench", "--problems", "p.jsonl", "--contenders", "wide", "--out", path_}).status, 0);
  EXPECT_EQ(lines().back().at("src").dump(), R"([["x:(1)2"],[]])");
  EXPECT_EQ(lines().back().at("dst").dump(), R"([[],["x:(2)2"]])");
}

TEST_F(Bench, leaves_a_file_that_holds_anything_else_as_it_is) {
  EXPECT_EQ(bench({"--samples", "1", "--contenders", "wide"}).status, 0);
  const std::string results = text();
  for (const std::string& held : {std::string("a letter"), results + "a note", results.substr(results.find('\n') + 1),
                                  std::string("{\"run\":1}\n")}) {
    std::ofstream(path_, std::ios::binary) << held;
    const ProcessResult result = bench({"--samples", "2", "--contenders", "wide"});
    EXPECT_EQ(result.status, 1) << held;
    EXPECT_THAT(result.errors,
                testing::EndsWith("hint: a file that holds anything but results is left as it is; name another\n"));
    EXPECT_EQ(text(), held);
  }
}

TEST_F(Bench, takes_only_regular_files_for_results) {
  for (const char* path : {"/dev/full", "/dev/zero"}) {
    EXPECT_EQ(run_retile({"bench", "--samples", "1", "--out", path}),
              input_fault("error: '" + std::string(path) +
                          "' is no regular file\nhint: results are read again when a run goes on\n"));
  }
  EXPECT_EQ(run_retile({"bench", "--samples", "1", "--out", "no/such/folder/r.jsonl"}),
            failure("retile: no/such/folder/r.jsonl: No such file or directory\n"));
}

TEST_F(Bench, leaves_whole_lines_where_a_file_may_not_grow) {
  const std::string command = "ulimit -f 3; " RETILE_COMMAND " bench --scale 0.0001 --contenders wide --out " + path_;
  EXPECT_EQ(run_process({"/bin/sh", "-c", command}), failure("retile: " + path_ + ": File too large\n"));
  EXPECT_THAT(text(), testing::EndsWith("}\n"));
  EXPECT_FALSE(results().empty());
}

TEST_F(Bench, says_how_to_go_on_when_it_is_stopped) {
  const ProcessResult result =
      run_process({"/usr/bin/timeout", "--preserve-status", "--signal=INT", "0.5", RETILE_COMMAND, "bench", "--scale",
                   "0.0001", "--samples", "1000000", "--contenders", "wide", "--out", path_});
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(result.errors, "retile: stopped; " + path_ + " is whole, and the same command goes on from there\n");
  EXPECT_THAT(text(), testing::EndsWith("}\n"));
  EXPECT_FALSE(results().empty());
}

// Several runs at once: what a run says it wrote is there.
TEST_F(Bench, has_its_file_for_itself_while_it_runs) {
  const std::string script =
      "for i in 1 2 3; do $0 bench --samples 10 --scale 0.0001 --repeat 2 --seed $i --contenders wide --out " + path_ +
      " & done; wait";
  const ProcessResult result = run_process({"/bin/sh", "-c", script, RETILE_COMMAND});
  std::size_t refused = 0;
  for (const std::string& line : lines_of(result.errors)) refused += line.starts_with("error: another run is writing");
  const std::size_t finished = lines_of(result.output).size();
  EXPECT_EQ(finished + refused, 3U) << result.errors;
  EXPECT_GE(finished, 1U);
  EXPECT_EQ(results().size(), 10 * finished);
}

TEST_F(Bench, says_so_where_a_run_was_killed_while_it_wrote) {
  EXPECT_EQ(bench({"--samples", "2", "--contenders", "wide"}).status, 0);
  std::filesystem::resize_file(path_, text().size() - 10);
  const ProcessResult result = bench({"--samples", "2", "--contenders", "wide"});
  EXPECT_EQ(result, (ProcessResult{
                        0, "2 of 2 problems, 1 new results in " + path_ + "\n",
                        "retile: an earlier run left the last line of " + path_ + " unfinished; it was left out\n"}));
  EXPECT_EQ(results(), (std::vector<std::string>{"sample-0000 wide", "sample-0001 wide"}));
}

TEST_F(Bench, measures_the_papers_problems_alone) {
  EXPECT_EQ(bench({"--adversarial", "--samples", "0", "--contenders", "wide"}).status, 0);
  EXPECT_EQ(results(), (std::vector<std::string>{"P1 wide", "P2 wide", "P3 wide", "P4 wide"}));
}

TEST_F(Bench, says_what_is_wrong_with_its_options) {
  EXPECT_EQ(bench({"--contenders", "magic"}).status, 2);
  EXPECT_EQ(bench({"--rank", "0-3"}).errors,
            "retile: --rank: '0' is no rank from 1 to 64; write 3 or 1-6\nTry 'retile bench --help'.\n");
  EXPECT_EQ(bench({"--size", "12x"}).errors,
            "retile: --size: '12x' is no size in bytes; write 64MB or 64MB-800MB\nTry 'retile bench --help'.\n");
  EXPECT_EQ(bench({"--rank", "4-2"}).status, 1);
  const auto fault = [](const std::string& message) {
    return usage_fault("retile: " + message + "\nTry 'retile bench --help'.\n");
  };
  EXPECT_EQ(run_retile({"bench", "--scale", "2"}), fault("--scale: '2' is no number from 1e-09 to 1"));
  EXPECT_EQ(run_retile({"bench", "--scale", "nan"}), fault("--scale: 'nan' is no number from 1e-09 to 1"));
  EXPECT_EQ(bench({"--time-limit", "nan"}), fault("--time-limit: 'nan' is no number from 0 to 1000000000"));
  EXPECT_EQ(bench({"--samples", "0"}), fault("--samples 0 leaves nothing to measure; add --adversarial"));
  EXPECT_EQ(bench({"--problems", "/dev/null"}).errors,
            "/dev/null:1:1: error: there are no problems in this file\n    1 | \n      | ^\nhint: each line is one, as "
            "JSON\n");
}

}  // namespace
}  // namespace retile::test
