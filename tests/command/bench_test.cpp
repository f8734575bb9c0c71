#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  const std::string path_ = testing::TempDir() + "retile_bench_test.jsonl";
};

TEST_F(Bench, WritesARunAndAResultForEachProblemAndContender) {
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

TEST_F(Bench, GoesOnWhereItWasAndNeitherRepeatsNorLosesResults) {
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

TEST_F(Bench, TakesProblemsFromAFileAndThePapersOwn) {
  const std::string problems = testing::TempDir() + "retile_bench_problems.jsonl";
  std::ofstream(problems)
      << R"({"id": "mine", "mesh": {"x": 3}, "shape": [9, 6], "src": [["x"], []], "dst": [[], ["x"]]})"
      << "\n";
  EXPECT_EQ(bench({"--problems", problems, "--adversarial", "--contenders", "paper"}).status, 0);
  EXPECT_EQ(results(), (std::vector<std::string>{"P1 paper", "P2 paper", "P3 paper", "P4 paper", "mine paper"}));
  std::filesystem::remove(problems);
}

TEST_F(Bench, StopsWhenTimeIsUp) {
  const ProcessResult result = bench({"--samples", "1000000", "--time-limit", "0.2", "--contenders", "wide"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, testing::MatchesRegex("[0-9,]+ of 1,000,000 problems, .*\n"));
  EXPECT_LT(results().size(), 1000000U);
}

TEST_F(Bench, SaysWhatIsWrongWithItsOptions) {
  EXPECT_EQ(bench({"--contenders", "magic"}).status, 2);
  EXPECT_EQ(bench({"--rank", "0-3"}).errors,
            "retile: --rank: '0' is no rank from 1 to 64; write 3 or 1-6\nTry 'retile bench --help'.\n");
  EXPECT_EQ(bench({"--size", "12"}).errors,
            "retile: --size: '12' is no size in bytes; write 64MB or 64MB-800MB\nTry 'retile bench --help'.\n");
  EXPECT_EQ(bench({"--rank", "4-2"}).status, 1);
  EXPECT_EQ(bench({"--scale", "2"}).status, 2);
  EXPECT_EQ(bench({"--problems", "/dev/null"}).errors,
            "/dev/null:1:1: error: there are no problems in this file\n    1 | \n      | ^\nhint: each line is one, as "
            "JSON\n");
  std::ofstream(path_) << "not a result\n";
  const ProcessResult result = bench({"--samples", "1"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, testing::StartsWith(path_ + ":1:"));
}

}  // namespace
}  // namespace retile::test
