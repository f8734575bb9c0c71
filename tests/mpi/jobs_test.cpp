// Jobs as a user starts them: what they print, and how they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/mpi/launch.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

ProcessResult run_retile_job(int ranks, std::vector<std::string> arguments, const ProcessInput& input = {}) {
  arguments.insert(arguments.begin(), RETILE_COMMAND);
  return run_job(ranks, arguments, input);
}

const std::vector<std::string> transpose{"run", "--mesh", "x=4,y=2", "[32{x,y}256, 64]", "[256, 8{y,x}64]"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(MpiJob, runs_on_mpi_without_being_told_to) {
  const ProcessResult result = run_retile_job(8, transpose);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, MatchesRegex("8 devices, mpi engine: verified, [0-9.]+ s, 7,168 bytes received at most, "
                                          "peak [0-9,]+ of [0-9,]+ bytes predicted\n"));
}

TEST(MpiJob, every_transport_is_verified) {
  for (const char* transport : {"auto", "collectives", "messages"}) {
    const ProcessResult result = run_retile_job(
        4, with(transpose, {"--planner", "paper", "--repeat", "2", "--donate", "--transport", transport}));
    EXPECT_EQ(result.status, 0) << transport << result.errors;
    EXPECT_THAT(result.output, HasSubstr("verified")) << transport;
  }
}

TEST(MpiJob, reads_problems_from_standard_input_on_all_ranks) {
  ProcessInput input;
  input.text = R"({"id": "p", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})";
  const ProcessResult result = run_retile_job(2, {"run", "--problems", "-"}, input);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, MatchesRegex("p: 2 devices, mpi engine: verified.*\n"));
}

TEST(MpiJob, calibrates_on_all_ranks_and_writes_once) {
  const ProcessResult result = run_retile_job(4, {"calibrate", "--seconds", "0.5"});
  if (result.errors.find("makes no sense") != std::string::npos) GTEST_SKIP() << result.errors;
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(count_of("\"hosts\": [[0, 1, 2, 3]]", result.output), 1) << result.output;
  EXPECT_EQ(count_of("\"spread\"", result.output), 1) << result.output;
}

TEST(MpiJob, is_also_there_without_mpirun) {
  const ProcessResult result =
      run_process({RETILE_COMMAND, "run", "--engine", "mpi", "--mesh", "x=4", "[2{x}8]", "[8]"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("4 devices, mpi engine: verified"));
}

TEST(MpiJobFault, devices_that_cannot_be_shared_out_are_refused_once) {
  const ProcessResult result = run_retile_job(3, transpose);
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(
      count_of("retile: 8 devices cannot be shared out evenly to 3 ranks: start a number of ranks that divides 8\n",
               result.errors),
      1)
      << result.errors;
}

// The others are where the file is not, as on another host.
TEST(MpiJob, files_are_written_by_the_first_rank) {
  std::ofstream(testing::TempDir() + "first_rank.spmd") << "mesh {x: 2} fn main(a: [8]) -> [8] {return a}";
  const std::string script = "test \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" != 0 || cd " + testing::TempDir() +
                             "; exec \"$0\" fmt -i first_rank.spmd";
  const ProcessResult result = run_job(2, {"/bin/sh", "-c", script, RETILE_COMMAND});
  EXPECT_EQ(result.status, 0) << result.errors;
  std::ifstream file(testing::TempDir() + "first_rank.spmd");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}),
            "mesh {x: 2}\n\nfn main(a: [8]) -> [8] {\n  return a\n}\n");
}

TEST(MpiJobFault, wrong_arguments_are_reported_once) {
  const ProcessResult type = run_retile_job(4, {"run", "--mesh", "x=4", "[2{q}8]", "[8]"});
  EXPECT_EQ(type.status, 1);
  EXPECT_EQ(count_of("unknown axis", type.errors), 1) << type.errors;
  const ProcessResult usage = run_retile_job(4, {"run", "--hurry"});
  EXPECT_EQ(usage.status, 2);
  EXPECT_EQ(count_of("unknown option --hurry", usage.errors), 1) << usage.errors;
  const ProcessResult map = run_retile_job(4, with(transpose, {"--device-map", "0,1,2,3,4,5,6,6"}));
  EXPECT_EQ(map.status, 2);
  EXPECT_EQ(count_of("the device map does not list every device from 0 to 7 once: look at its device 6", map.errors), 1)
      << map.errors;
}

// Each problem of a file on its own: what all ranks refuse does not end the job.
TEST(MpiJobFault, goes_on_after_a_problem_that_all_ranks_refuse) {
  ProcessInput input;
  input.text = R"({"id": "three", "mesh": {"x": 3}, "shape": [9], "src": [["x"]], "dst": [[]]}
{"id": "two", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]}
)";
  const ProcessResult result = run_retile_job(2, {"run", "--problems", "-"}, input);
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, MatchesRegex("two: 2 devices, mpi engine: verified.*\n"));
  EXPECT_EQ(count_of("error: 3 devices cannot be shared out evenly to 2 ranks", result.errors), 1) << result.errors;
}

TEST(MpiJobFault, measures_on_after_a_problem_that_all_ranks_refuse) {
  const std::string results = testing::TempDir() + "refused.jsonl";
  std::remove(results.c_str());
  ProcessInput input;
  input.text = R"({"id": "sum", "mesh": {"x": 2}, "src_sum": ["x"], "shape": [4], "src": [[]], "dst": [["x"]]}
{"id": "slice", "mesh": {"x": 2}, "shape": [4], "src": [[]], "dst": [["x"]]}
)";
  const ProcessResult result =
      run_retile_job(2, {"bench", "--problems", "-", "--contenders", "wide", "--out", results}, input);
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output, "2 of 2 problems, 2 new results in " + results + "\n");
  EXPECT_EQ(count_of("error: wide: sums are not measured", result.errors), 1) << result.errors;
}

// One rank's MPI_Isend fails, or the rank dies in it.
ProcessResult run_with_fault(const char* fault, const char* call) {
  return run_job(4, with({"/usr/bin/env", std::string("LD_PRELOAD=") + RETILE_MPI_FAULT, "RETILE_FAULT_RANK=2",
                          std::string("RETILE_FAULT_CALL=") + call, std::string("RETILE_FAULT=") + fault,
                          "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0", RETILE_COMMAND},
                         with(transpose, {"--transport", "messages", "--repeat", "3"})));
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr double soon = 20;  // seconds, on a busy machine; the job itself takes one

TEST(MpiJobFault, an_mpi_error_ends_the_job_with_rank_step_and_cause) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_with_fault("error", "5");
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, HasSubstr("retile: rank 2, step 0, "));
  EXPECT_THAT(result.errors, HasSubstr(": MPI_Isend: "));
}

TEST(MpiJobFault, a_killed_rank_ends_the_job) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_with_fault("kill", "5");
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, Not(HasSubstr("verified")));
}

// Not even for the message.
TEST(MpiJobFault, a_rank_without_memory_ends_the_job) {
  const ProcessResult result = run_with_fault("memory", "5");
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_EQ(result.output, "");
  // Ranks that hear of it may say so, too, before the job ends.
  EXPECT_GE(count_of(": out of memory\n", result.errors), 1) << result.errors;
}

// It would wait for ranks that are gone.
TEST(MpiJobFault, an_aborted_job_does_not_end_mpi) {
  EXPECT_THAT(run_with_fault("error", "5").errors, Not(HasSubstr("MPI is ended after the job was aborted")));
}

TEST(MpiJobFault, without_a_fault_the_same_job_ends_well) {
  const ProcessResult result = run_with_fault("error", "1000000");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("verified"));
}

// --- Transfers.

const std::string manifest =
    R"({"name": "v", "mesh": {"x": 8}, "shape": [256, 64], "src": [["x"], []], "dst": [[], ["x"]]}
{"name": "w", "mesh": {"x": 8}, "shape": [256, 64], "src": [["x"], []], "dst": [[], ["x"]]}
)";

ProcessResult transfer_with_fault(const char* fault, const char* call) {
  return run_job(4,
                 {"/usr/bin/env", std::string("LD_PRELOAD=") + RETILE_MPI_FAULT, "RETILE_FAULT_RANK=2",
                  std::string("RETILE_FAULT_CALL=") + call, std::string("RETILE_FAULT=") + fault,
                  "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0", RETILE_COMMAND, "transfer", "-",
                  "--max-bytes", "4KiB", "--transport", "messages"},
                 {manifest});
}

TEST(MpiJobTransfer, is_verified_within_the_cap) {
  for (const char* transport : {"auto", "messages"}) {
    const ProcessResult result =
        run_retile_job(4, {"transfer", "-", "--max-bytes", "4KiB", "--transport", transport}, {manifest});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("mpi engine: verified"));
  }
}

TEST(MpiJobTransfer, in_place_is_verified_and_predicted) {
  const ProcessResult result = run_retile_job(4, {"transfer", "-", "--max-bytes", "64KiB", "--in-place"}, {manifest});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr(" bytes per device at most, in place: "));
  EXPECT_THAT(result.output, HasSubstr("mpi engine: verified"));
}

TEST(MpiJobTransfer, in_place_refuses_a_cap_that_staging_would_not_keep) {
  const ProcessResult result = run_retile_job(4, {"transfer", "-", "--max-bytes", "100", "--in-place"}, {manifest});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, HasSubstr("hint: the smallest cap that works in place is "));
}

TEST(MpiJobTransfer, needs_ranks_that_devices_can_be_shared_out_to) {
  const ProcessResult ranks = run_retile_job(3, {"transfer", "-"}, {manifest});
  EXPECT_EQ(ranks.status, 2);
  EXPECT_EQ(
      count_of("retile: 8 devices cannot be shared out evenly to 3 ranks: start a number of ranks that divides 8\n",
               ranks.errors),
      1)
      << ranks.errors;
  const ProcessResult map = run_retile_job(4, {"transfer", "-", "--device-map", "0,1,2"}, {manifest});
  EXPECT_EQ(map.status, 2);
  EXPECT_EQ(count_of("retile: the device map lists 3 devices, and the mesh has 8\n", map.errors), 1) << map.errors;
  EXPECT_EQ(run_retile_job(3, {"transfer", "-", "--dry-run"}, {manifest}).status, 0) << "a dry run starts no engine";
}

TEST(MpiJobTransfer, ends_with_its_rank_where_that_fails) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = transfer_with_fault("error", "5");
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("retile: rank 2: MPI_Isend: "));
}

TEST(MpiJobTransfer, ends_where_a_rank_is_killed) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = transfer_with_fault("kill", "5");
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, Not(HasSubstr("verified")));
}

// --- A rank with little address space. Sanitizers need terabytes of it.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool address_space_can_be_limited = false;
#else
constexpr bool address_space_can_be_limited = true;
#endif

// On the last of the ranks.
ProcessResult run_with_little_address_space(int ranks, int kibibytes, const std::vector<std::string>& arguments) {
  const std::string script = "test \"$OMPI_COMM_WORLD_RANK$PMI_RANK\" != " + std::to_string(ranks - 1) +
                             " || ulimit -v " + std::to_string(kibibytes) + "; exec \"$0\" \"$@\"";
  return run_job(ranks, with({"/bin/sh", "-c", script, RETILE_COMMAND}, arguments));
}

// Left to itself, MPI crashes, waits forever or works, depending on the size.
TEST(MpiJobMemory, too_little_to_start_mpi_is_said) {
  if (!address_space_can_be_limited) GTEST_SKIP();
  for (const int kibibytes : {42000, 62000, 86000, 158000, 300000}) {
    const ProcessResult result = run_with_little_address_space(4, kibibytes, transpose);
    EXPECT_EQ(result.status, 3) << kibibytes << result.errors;
    EXPECT_EQ(count_of("retile: no memory: MPI needs 512 MiB of address space to start (ulimit -v)\n", result.errors),
              1)
        << kibibytes << result.errors;
  }
}

TEST(MpiJobMemory, too_little_for_the_tiles_is_said) {
  if (!address_space_can_be_limited) GTEST_SKIP();
  const ProcessResult result = run_with_little_address_space(
      2, 600000, {"run", "--mesh", "x=2", "[65536{x}131072, 1024]", "[131072, 512{x}1024]"});
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(count_of("retile: no memory for a tile of 268435456 bytes\n", result.errors), 1) << result.errors;
}

// --- Ranks that were told different things.

// Two ranks of a job, each with arguments of its own.
ProcessResult run_differing(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  return launch(with(with({"-n", "1", RETILE_COMMAND}, first), with({":", "-n", "1", RETILE_COMMAND}, second)));
}

void expect_difference(const std::vector<std::string>& first, const std::vector<std::string>& second,
                       const std::string& difference) {
  const ProcessResult result = run_differing(first, second);
  EXPECT_EQ(result.status, 2) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(count_of("retile: the ranks were started with different arguments: " + difference + "\n", result.errors), 1)
      << result.errors;
}

TEST(MpiJobArguments, must_be_the_same_on_all_ranks) {
  expect_difference(with(transpose, {"--repeat", "3"}), with(transpose, {"--repeat", "2"}),
                    "argument 7 is '3' on rank 0 and '2' on rank 1");
  expect_difference(with(transpose, {"--seed=1"}), with(transpose, {"--seed=12"}),
                    "argument 6 is '--seed=1' on rank 0 and '--seed=12' on rank 1");
  expect_difference(transpose, with(transpose, {"--engine", "threads"}),
                    "argument 6 is missing on rank 0 and '--engine' on rank 1");
  expect_difference(with(transpose, {"--json"}), transpose, "argument 6 is '--json' on rank 0 and missing on rank 1");
  expect_difference({"run", "--problems", "-"}, transpose,
                    "argument 2 is '--problems' on rank 0 and '--mesh' on rank 1");
}

TEST(MpiJobArguments, help_and_version_are_for_all_ranks_or_none) {
  expect_difference({"--version"}, transpose, "argument 1 is '--version' on rank 0 and 'run' on rank 1");
  expect_difference(transpose, {"run", "--help"}, "argument 2 is '--mesh' on rank 0 and '--help' on rank 1");
  const ProcessResult version = run_retile_job(2, {"--version"});
  EXPECT_EQ(version.status, 0) << version.errors;
  EXPECT_EQ(count_of("retile", version.output), 1);
}

// --- Programs.

TEST(MpiJobProgram, a_failure_on_one_rank_has_its_place_and_is_said_once) {
  ProcessInput input;
  input.text =
      "mesh {x: 2}\nfn main(a : i32[1{x}2]) -> i32[1{x}2] {\n"
      "  b = spmd_op a (t : i32[1]) { return t / broadcast (1 - coordinate x) [1] } as i32[1{x}2]\n"
      "  return b\n}\n";
  const ProcessResult result = run_retile_job(2, {"run", "-"}, input);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(result.errors,
            "standard input:3:39: error: device 1 divides by zero at [0] of its tile\n"
            "    3 |   b = spmd_op a (t : i32[1]) { return t / broadcast (1 - coordinate x) [1] } as i32[1{x}2]\n"
            "      |                                       ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
}

}  // namespace
}  // namespace retile::test
