#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::MatchesRegex;

// The planner, the engine and the use of tiles whose figures are known here.
ProcessResult run(std::vector<std::string> arguments, const std::string& input = {}) {
  arguments.insert(arguments.begin(), {"run", "--planner", "gather-slice", "--engine", "reference", "--donate"});
  return run_retile(std::move(arguments), input);
}

// --- For people.

TEST(RunText, is_one_line) {
  const ProcessResult result = run({"--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  EXPECT_THAT(result.output, MatchesRegex("4 devices, reference engine: verified, [0-9]+\\.[0-9]{6} s, 192 bytes "
                                          "received at most, peak 320 of 320 bytes predicted\n"));
}

TEST(RunText, one_device_is_counted_as_one) {
  EXPECT_THAT(run({"--mesh", "x=1", "[8]", "[8]"}).output,
              MatchesRegex("1 device, reference engine: verified, [0-9]+\\.[0-9]{6} s, 0 bytes "
                           "received at most, peak 32 of 32 bytes predicted\n"));
}

TEST(RunText, names_each_problem) {
  const std::string problems = R"({"id": "first", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]}
{"mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]], "dtype": "c128"}
{"id": "\u001b[2J", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]], "dtype": "i8"}
)";
  const ProcessResult result = run({"--problems", "-"}, problems);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  const std::vector<std::string> lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_THAT(lines[0], MatchesRegex("first: 2 devices, .* 16 bytes received at most, peak 48 of 48 bytes predicted"));
  EXPECT_THAT(lines[1], MatchesRegex("line-2: 2 devices, .* 64 bytes received at most, peak 192 of 192 .*"));
  EXPECT_THAT(lines[2], MatchesRegex(" \\[2J: 2 devices, .* 4 bytes received at most, peak 12 of 12 bytes predicted"));
}

TEST(RunText, element_types_have_their_sizes) {
  const std::vector<std::pair<std::string, std::string>> peaks = {{"i8", "12"},  {"f16", "24"},  {"bf16", "24"},
                                                                  {"i32", "48"}, {"f32", "48"},  {"f64", "96"},
                                                                  {"c64", "96"}, {"c128", "192"}};
  for (const auto& [type, peak] : peaks) {
    EXPECT_THAT(run({"--mesh", "x=2", "[4{x}8]", "[8]", "--dtype", type}).output,
                MatchesRegex(".*verified.* peak " + peak + " of " + peak + " bytes predicted\n"))
        << type;
  }
}

TEST(RunText, engines_threads_and_the_use_of_tiles_are_chosen) {
  const std::vector<std::string> problem{"run", "--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]"};
  const auto run_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), problem.begin(), problem.end());
    return run_retile(std::move(more)).output;
  };
  const std::string one_alltoall =
      "4 devices, threads engine: verified, .* 48 bytes .* peak 128 of 128 bytes predicted\n";
  EXPECT_THAT(run_with({}), MatchesRegex(one_alltoall));
  EXPECT_THAT(run_with({"--engine", "threads", "--threads", "3"}), MatchesRegex(one_alltoall));
  EXPECT_THAT(run_with({"--donate"}), MatchesRegex(one_alltoall));
  EXPECT_THAT(run_with({"--planner", "gather-slice"}), MatchesRegex(".* peak 384 of 384 bytes predicted\n"))
      << "source, target and the whole array";
  EXPECT_THAT(run_with({"--planner", "gather-slice", "--donate"}), MatchesRegex(".* peak 320 of 320 bytes predicted\n"))
      << "the whole array and source or target";
  EXPECT_THAT(run_with({"--engine", "reference"}), MatchesRegex("4 devices, reference engine: verified, .*\n"));
}

// --- For programs.

TEST(RunJson, has_exactly_the_keys_of_the_format_in_order) {
  const ProcessResult result = run({"--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]", "--repeat", "3", "--json"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  ASSERT_EQ(lines_of(result.output).size(), 1U);
  Json json = Json::parse(result.output);
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"format", "id", "engine", "devices", "verified", "seconds",
                                                     "received_bytes_max", "peak_bytes"}));
  ASSERT_EQ(json["seconds"].size(), 3U);
  for (Json& seconds : json["seconds"]) {
    EXPECT_GE(seconds.get<double>(), 0);
    seconds = 0;
  }
  EXPECT_EQ(json.dump(), R"({"format":1,"id":"","engine":"reference","devices":4,"verified":true,"seconds":[0,0,0],)"
                         R"("received_bytes_max":192,"peak_bytes":{"predicted":320,"measured":320}})");
}

TEST(RunJson, verifies_the_papers_problems) {
  std::string problems;  // without those of the table, which move gigabytes
  for (const std::string& line : lines_of(read_source_file("examples/paper.jsonl"))) {
    if (line.find("tbl:") == std::string::npos && line.find("row") == std::string::npos) problems += line + "\n";
  }
  const ProcessResult result = run_retile({"run", "--problems", "-", "--json"}, problems);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  const std::vector<std::string> lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 4U);
  for (const std::string& line : lines) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json["verified"], true) << line;
    EXPECT_LE(json["peak_bytes"]["measured"], json["peak_bytes"]["predicted"]) << line;
  }
}

TEST(RunJson, seeds_reach_to_the_largest) {
  for (const std::string seed : {"0", "1", "18446744073709551615"}) {
    const ProcessResult result = run({"--mesh", "x=2", "[4{x}8]", "[8]", "--json", "--seed", seed});
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(Json::parse(result.output)["verified"], true);
  }
}

// --- Runs that fail, and input that is at fault.

TEST(RunFailure, arrays_that_do_not_fit_in_memory) {
  const ProcessResult result = run({"--mesh", "x=4", "[1099511627776]", "[274877906944{x}1099511627776]"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, MatchesRegex("retile: the run needs 21990232559616 bytes for the tiles of 4 devices, and "
                                          "[0-9]+ are free\n"));
}

TEST(RunFailure, devices_that_do_not_fit_in_memory) {
  const ProcessResult result =
      run_retile_quickly({"run", "--mesh", "x=2147483647", "[1{x}2147483647]", "[1{x}2147483647]", "--dtype", "i8"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors,
              MatchesRegex("retile: the run needs 2203318221822 bytes for the tiles of 2147483647 devices, "
                           "and [0-9]+ are free\n"));
}

TEST(RunFailure, large_groups_are_refused_before_they_are_checked) {
  const ProcessResult result = run_retile_quickly(
      {"run", "--planner", "gather-slice", "--mesh", "x=1024,y=1024", "[4{x}4096, 4{y}4096]", "[4{y}4096, 4{x}4096]"});
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, MatchesRegex("retile: the run needs [0-9]+ bytes for the tiles of 1048576 devices, "
                                          "and [0-9]+ are free\n"));
}

TEST(RunFailure, bytes_beyond63_bits) {
  EXPECT_EQ(run({"--mesh", "x=4", "[4611686018427387904]", "[1152921504606846976{x}4611686018427387904]"}),
            failure("retile: 5764607523034234880 elements of 4 bytes do not fit in 63 bits\n"));
}

TEST(RunFailure, in_a_file_is_told_with_its_line_and_the_others_still_run) {
  const std::string good = R"({"id": "good", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})";
  const std::string large = R"({"mesh": {"x": 2}, "shape": [4611686018427387904], "src": [["x"]], "dst": [[]]})";
  const std::string refused =
      "standard input:2: error: 6917529027641081856 elements of 4 bytes do not fit in 63 bits\n";
  const std::string fault = R"(standard input:3:1: error: the problem must be an object, not an integer
    3 | 7
      | ^
)";
  const ProcessResult result = run({"--problems", "-", "--json"}, good + "\n" + large + "\n7\n" + good + "\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.errors, refused + fault);
  const std::vector<std::string> lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 2U);
  for (const std::string& line : lines) EXPECT_EQ(Json::parse(line)["id"], "good");
}

TEST(RunProblems, one_bad_line_does_not_keep_the_others_from_running) {
  const std::string good = R"({"id": "good", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})";
  const ProcessResult result = run({"--problems", "-", "--json"}, "{\n" + good);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.errors, R"(standard input:1:2: error: malformed JSON: )"
                           R"(syntax error while parsing object key - unexpected end of input; expected string literal
    1 | {
      |  ^
)");
  EXPECT_EQ(Json::parse(result.output)["verified"], true);
}

TEST(RunProblems, none_are_a_fault) {
  EXPECT_EQ(run({"--problems", "-"}, ""), input_fault(R"(standard input:1:1: error: there are no problems in this file
    1 | 
      | ^
hint: each line is one, as JSON
)"));
}

TEST(RunHugeMesh, devices_of_one_element_each) {
  const ProcessResult result = run({"--mesh", "x=262144", "[1{x}262144]", "[1{x}262144]", "--dtype", "i8", "--json"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(Json::parse(result.output)["devices"], 262144);
}

}  // namespace
}  // namespace retile::test
