// retile run FILE.spmd
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const std::string turn = R"(mesh {x: 2}
fn main(a : i32[1{x}2, 2], b : [4]) -> i32[2, 1{x}2], [4] {
  c = redistribute a as i32[2, 1{x}2]
  return c, b
}
)";

// The first ten bytes of a .npy file, its header and data.
std::string npy_file(const std::string& type, const std::string& shape, const std::string& data) {
  const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  const char prefix[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(header.size()), 0};
  return std::string(prefix, sizeof prefix) + header + data;
}

const std::string four_numbers("\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 16);

class RunProgram : public ::testing::Test {
 protected:
  RunProgram() {
    folder_.write("turn.spmd", turn);
    folder_.write("a.npy", npy_file("<i4", "(2, 2)", four_numbers));
  }

  ProcessResult run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"run", "turn.spmd"});
    return folder_.run_retile(std::move(arguments));
  }

  TemporaryFolder folder_;
};

// --- Results.

TEST_F(RunProgram, prints_every_result) {
  const ProcessResult result = run({"--arg", "a=a.npy", "--engine", "reference"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  const std::vector<std::string> lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0], "c : i32[2, 1{x}2]");
  EXPECT_THAT(lines[1], MatchesRegex("  shape \\[2, 2\\]  checksum 0x[0-9a-f]{16}"));
  EXPECT_EQ(lines[2], "  1 2 3 4");
  EXPECT_EQ(lines[3], "b : [4]");
  EXPECT_THAT(lines[6],
              MatchesRegex("2 devices, reference engine: [0-9]+\\.[0-9]{6} s, peak 32 of 32 bytes predicted"));
}

TEST_F(RunProgram, reads_programs_from_standard_input) {
  EXPECT_THAT(run_retile({"run", "-"}, turn).output, HasSubstr("c : i32[2, 1{x}2]\n"));
}

TEST_F(RunProgram, writes_json) {
  const ProcessResult result = run({"--arg", "a=a.npy", "--json", "--repeat", "3", "--verify", "--engine=threads"});
  EXPECT_EQ(result.status, 0);
  const Json json = Json::parse(result.output);
  EXPECT_THAT(keys_of(json),
              ElementsAre("format", "engine", "devices", "verified", "results", "seconds", "peak_bytes"));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["engine"], "threads");
  EXPECT_EQ(json["devices"], 2);
  EXPECT_EQ(json["verified"], true);
  EXPECT_EQ(json["seconds"].size(), 3U);
  ASSERT_EQ(json["results"].size(), 2U);
  EXPECT_THAT(keys_of(json["results"][0]), ElementsAre("name", "type", "shape", "checksum", "elements"));
  EXPECT_EQ(json["results"][0]["name"], "c");
  EXPECT_EQ(json["results"][0]["type"], "i32[2, 1{x}2]");
  EXPECT_EQ(json["results"][0]["shape"], Json::parse("[2, 2]"));
  EXPECT_EQ(json["results"][0]["elements"], Json::parse(R"(["1", "2", "3", "4"])"));
  EXPECT_EQ(json["peak_bytes"], Json::parse(R"({"predicted": 32, "measured": 32})"));
}

TEST_F(RunProgram, verifies_only_when_asked) {
  EXPECT_THAT(run({"--verify"}).output, HasSubstr(" engine: verified, "));
  EXPECT_THAT(run({}).output, ::testing::Not(HasSubstr("verified")));
  EXPECT_FALSE(Json::parse(run({"--json"}).output).contains("verified"));
}

TEST_F(RunProgram, seeds_make_arguments) {
  const auto checksum = [&](const std::string& seed) {
    return Json::parse(run({"--json", "--seed", seed}).output)["results"][1]["checksum"];
  };
  EXPECT_EQ(checksum("1"), checksum("1"));
  EXPECT_NE(checksum("1"), checksum("2"));
}

TEST_F(RunProgram, writes_files_that_it_reads) {
  EXPECT_EQ(run({"--arg", "a=a.npy", "--out", "c=c.npy", "--out", "b=b.npy"}).status, 0);
  const ProcessResult again = run({"--arg", "a=c.npy", "--arg", "b=b.npy", "--json"});
  const Json json = Json::parse(again.output);
  EXPECT_EQ(json["results"][0]["elements"], Json::parse(R"(["1", "2", "3", "4"])"));
  EXPECT_EQ(json["results"][1]["checksum"], Json::parse(run({"--json"}).output)["results"][1]["checksum"]);
}

// --- Faults.

TEST_F(RunProgram, reports_all_faults_of_a_program) {
  folder_.write("bad.spmd", "mesh {x: 2}\nfn main(a : [3{x}8]) -> [8] {\n  b = undistribute q\n  return b\n}\n");
  const ProcessResult result = folder_.run_retile({"run", "bad.spmd"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, HasSubstr("bad.spmd:2:14: error: "));
}

TEST_F(RunProgram, reports_missing_files) {
  EXPECT_EQ(folder_.run_retile({"run", "none.spmd"}),
            input_fault("error: cannot read 'none.spmd': No such file or directory\n"));
  EXPECT_EQ(run({"--arg", "a=none.npy"}), input_fault("error: cannot read 'none.npy': No such file or directory\n"));
}

TEST_F(RunProgram, reports_arguments_that_do_not_fit) {
  EXPECT_EQ(run({"--arg", "q=a.npy"}),
            input_fault("error: there is no parameter 'q'\nhint: the main function's parameters are a, b\n"));
  EXPECT_EQ(run({"--out", "a=c.npy"}),
            input_fault("error: there is no result 'a'\nhint: the main function returns c, b\n"));
  EXPECT_EQ(run({"--arg", "b=a.npy"}), input_fault("error: a.npy: it holds i32 elements, and 'b' has f32\n"));
  folder_.write("wide.npy", npy_file("<i4", "(1, 4)", four_numbers));
  EXPECT_EQ(run({"--arg", "a=wide.npy"}),
            input_fault("error: wide.npy: its shape is [1, 4], and that of 'a' is [2, 2]\n"));
  folder_.write("text.npy", "hello, world");
  EXPECT_EQ(run({"--arg", "a=text.npy"}), input_fault("error: text.npy: it is no .npy file\n"));
}

TEST_F(RunProgram, reports_files_that_cannot_be_written) {
  EXPECT_EQ(run({"--out", "c=no/such/folder.npy"}),
            failure("retile: cannot write 'no/such/folder.npy': No such file or directory\n"));
}

TEST_F(RunProgram, reports_sums_that_leave_main) {
  folder_.write("sum.spmd",
                "mesh {x: 2}\nfn main(a : [8] sum {x}) -> [8] {\n  b = allreduce a as [8]\n  return b\n}\n");
  EXPECT_EQ(folder_.run_retile({"run", "sum.spmd"}),
            input_fault("sum.spmd:2:9: error: the main function cannot take 'a' in a run: it is a sum\n"
                        "    2 | fn main(a : [8] sum {x}) -> [8] {\n"
                        "      |         ^\n"
                        "hint: parts of sums are for between functions: redistribute them\n"));
}

TEST_F(RunProgram, keeps_to_the_memory_limit) {
  EXPECT_EQ(run({"--memory-limit", "32"}).status, 0);
  EXPECT_EQ(run({"--memory-limit", "32B"}).status, 0);
  const ProcessResult refused = run({"--memory-limit", "31"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors,
              HasSubstr("turn.spmd:3:3: error: 32 bytes per device are needed here, and the limit is 31\n"));
  EXPECT_EQ(run({"--memory-limit", "2x"}),
            input_fault("argument --memory-limit:1:1: error: a number of bytes is needed here, not a factor\n"
                        "    1 | 2x\n"
                        "      | ^~\n"
                        "hint: write 4096, 512MiB, 1.5GB\n"));
}

// The reference engine copies an operand that stays alive; others do not need that.
TEST_F(RunProgram, keeps_to_the_memory_limit_of_the_engine_too) {
  folder_.write("kept.spmd",
                "mesh {x: 2}\nfn main(a : [4{x}8, 2]) -> [8, 1{x}2], [4{x}8, 2] {\n"
                "  b = redistribute a as [8, 1{x}2]\n  return b, a\n}\n");
  EXPECT_EQ(folder_.run_retile({"run", "kept.spmd", "--memory-limit", "96", "--engine", "threads"}).status, 0);
  EXPECT_EQ(folder_.run_retile({"run", "kept.spmd", "--memory-limit", "96", "--engine", "reference"}),
            input_fault("kept.spmd:3:3: error: 128 bytes per device are needed here, and the limit is 96\n"
                        "    3 |   b = redistribute a as [8, 1{x}2]\n"
                        "      |   ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
                        "hint: the smallest limit that works is 128 bytes; to need less, cut arrays along more axes or "
                        "use values for the last time earlier\n"));
}

// What a program needs is one number, whoever says it.
TEST_F(RunProgram, needs_what_its_summary_says) {
  folder_.write("sliced.spmd",
                "mesh {x: 4, y: 2}\nfn main(a : [2{x}8, 8]) -> [8, 4{y}8] {\n"
                "  b = redistribute a as [8, 4{y}8]\n  return b\n}\n");
  EXPECT_EQ(Json::parse(folder_.run_retile({"lower", "sliced.spmd", "--json"}).output)["peak"]["bytes"], 192);
  const Json run = Json::parse(folder_.run_retile({"run", "sliced.spmd", "--json", "--memory-limit", "192"}).output);
  EXPECT_EQ(run["peak_bytes"], Json::parse(R"({"predicted": 192, "measured": 192})"));
  EXPECT_EQ(folder_.run_retile({"run", "sliced.spmd", "--memory-limit", "191"}).status, 1);
}

TEST_F(RunProgram, refuses_what_the_machine_cannot_hold) {
  folder_.write("large.spmd", "mesh {x: 4}\nfn main(a : [4000000000000]) -> [4000000000000] {\n  return a\n}\n");
  const ProcessResult large = folder_.run_retile({"run", "large.spmd"});
  EXPECT_EQ(large.status, 3);
  EXPECT_THAT(large.errors, MatchesRegex("retile: the program needs 16000000000000 bytes on each of 4 devices, and "
                                         "[0-9]+ are free in all\n"));
}

TEST_F(RunProgram, refuses_meshes_that_the_machine_cannot_hold) {
  const ProcessResult result = run_retile(
      {"run", "-"}, "mesh {x: 2147483647}\nfn main(a : [2]) -> [2] {\n  b = undistribute a\n  return b\n}\n");
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.errors, HasSubstr("the program needs 8 bytes on each of 2147483647 devices, and "));
}

TEST_F(RunProgram, failures_in_the_program_have_their_place) {
  folder_.write("zero.spmd",
                "mesh {x: 2}\nfn main(a : i32[1{x}2]) -> i32[1{x}2] {\n"
                "  b = spmd_op a (t : i32[1]) { return t / 0 } as i32[1{x}2]\n  return b\n}\n");
  EXPECT_EQ(folder_.run_retile({"run", "zero.spmd"}),
            failure("zero.spmd:3:39: error: device 0 divides by zero at [0] of its tile\n"
                    "    3 |   b = spmd_op a (t : i32[1]) { return t / 0 } as i32[1{x}2]\n"
                    "      |                                       ^~~~~\n"));
}

// --- Usage.

TEST_F(RunProgram, options_have_their_form) {
  const std::string advice = "\nTry 'retile run --help'.\n";
  EXPECT_EQ(run({"--arg", "a"}), usage_fault("retile: --arg: 'a' is not of the form NAME=FILE" + advice));
  EXPECT_EQ(run({"--out", "=c.npy"}), usage_fault("retile: --out: '=c.npy' is not of the form NAME=FILE" + advice));
  EXPECT_EQ(run({"--arg", "a=a.npy", "--arg", "a=b.npy"}),
            usage_fault("retile: --arg: 'a' is given more than once" + advice));
  EXPECT_EQ(run({"--dtype", "f64"}),
            usage_fault("retile: --dtype goes with SRC and DST; a program has its own types" + advice));
  EXPECT_EQ(
      run({"--donate"}),
      usage_fault("retile: --donate goes with SRC and DST; a program's tiles are freed where they can be" + advice));
  EXPECT_EQ(run_retile({"run", "--mesh", "x=2", "[2]", "[2]", "--verify"}),
            usage_fault("retile: --arg, --out and --verify go with a program: retile run FILE.spmd" + advice));
}

// --- Files that are none, or cannot be written.

TEST_F(RunProgram, does_not_wait_for_a_pipe) {
  ASSERT_EQ(mkfifo((folder_.path() + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(run({"--arg", "a=pipe"}), input_fault("error: cannot read 'pipe': it is no plain file\n"));
}

TEST_F(RunProgram, fails_where_a_file_may_not_grow) {
  folder_.write("large.spmd", "mesh {x: 2}\nfn main(a : [8192{x}16384]) -> [8192{x}16384] { return a }\n");
  const ProcessResult result = run_process(
      {"/bin/sh", "-c", "ulimit -f 8; exec $0 run large.spmd --out a=out.npy", RETILE_COMMAND}, {"", folder_.path()});
  EXPECT_EQ(result, failure("retile: cannot write 'out.npy': File too large\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/out.npy"));
}

// Ended while it writes: the file is whole or not there, and nothing else is.
TEST_F(RunProgram, leaves_no_part_of_a_file_where_it_is_ended) {
  namespace fs = std::filesystem;
  fs::create_directory(folder_.path() + "/out");
  folder_.write("large.spmd", "mesh {x: 2}\nfn main(a : [4194304{x}8388608]) -> [4194304{x}8388608] { return a }\n");
  const std::string script =
      "$0 run large.spmd --out a=out/a.npy & pid=$!; while test -z \"$(ls -A out)\"; do :; done; kill $pid; wait $pid";
  run_process({"/bin/sh", "-c", script, RETILE_COMMAND}, {"", folder_.path()});
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path() + "/out")) {
    EXPECT_EQ(entry.path().filename(), "a.npy");
    EXPECT_EQ(entry.file_size(), 128 + 4 * 8388608U);
  }
}

}  // namespace
}  // namespace retile::test
