// Jobs as a user starts them: what they print, and how they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// mpirun with the flags that this machine needs, then the program.
ProcessResult run_job(int ranks, const std::vector<std::string>& program, const ProcessInput& input = {}) {
  std::vector<std::string> arguments = split(RETILE_MPI_LAUNCHER, '|');
  arguments.insert(arguments.end(), {"-n", std::to_string(ranks)});
  arguments.insert(arguments.end(), program.begin(), program.end());
  return run_process(arguments, input);
}

ProcessResult run_retile_job(int ranks, std::vector<std::string> arguments, const ProcessInput& input = {}) {
  arguments.insert(arguments.begin(), RETILE_COMMAND);
  return run_job(ranks, arguments, input);
}

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

const std::vector<std::string> transpose{"run", "--mesh", "x=4,y=2", "[32{x,y}256, 64]", "[256, 8{y,x}64]"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(MpiJob, RunsOnMpiWithoutBeingToldTo) {
  const ProcessResult result = run_retile_job(8, transpose);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, MatchesRegex("8 devices, mpi engine: verified, [0-9.]+ s, 7,168 bytes received at most, "
                                          "peak [0-9,]+ of [0-9,]+ bytes predicted\n"));
}

TEST(MpiJob, EveryTransportIsVerified) {
  for (const char* transport : {"auto", "collectives", "messages"}) {
    const ProcessResult result = run_retile_job(
        4, with(transpose, {"--planner", "paper", "--repeat", "2", "--donate", "--transport", transport}));
    EXPECT_EQ(result.status, 0) << transport << result.errors;
    EXPECT_THAT(result.output, HasSubstr("verified")) << transport;
  }
}

TEST(MpiJob, ReadsProblemsFromStandardInputOnAllRanks) {
  ProcessInput input;
  input.text = R"({"id": "p", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})";
  const ProcessResult result = run_retile_job(2, {"run", "--problems", "-"}, input);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, MatchesRegex("p: 2 devices, mpi engine: verified.*\n"));
}

TEST(MpiJob, IsAlsoThereWithoutMpirun) {
  const ProcessResult result =
      run_process({RETILE_COMMAND, "run", "--engine", "mpi", "--mesh", "x=4", "[2{x}8]", "[8]"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("4 devices, mpi engine: verified"));
}

TEST(MpiJobFault, DevicesThatCannotBeSharedOutAreRefusedOnce) {
  const ProcessResult result = run_retile_job(3, transpose);
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_EQ(
      count_of("retile: 8 devices cannot be shared out evenly to 3 ranks: start a number of ranks that divides 8\n",
               result.errors),
      1)
      << result.errors;
}

TEST(MpiJobFault, WrongArgumentsAreReportedOnce) {
  const ProcessResult type = run_retile_job(4, {"run", "--mesh", "x=4", "[2{q}8]", "[8]"});
  EXPECT_EQ(type.status, 1);
  EXPECT_EQ(count_of("unknown axis", type.errors), 1) << type.errors;
  const ProcessResult usage = run_retile_job(4, {"run", "--hurry"});
  EXPECT_EQ(usage.status, 2);
  EXPECT_EQ(count_of("unknown option --hurry", usage.errors), 1) << usage.errors;
  const ProcessResult map = run_retile_job(4, with(transpose, {"--device-map", "0,1,2,3,4,5,6,6"}));
  EXPECT_EQ(map.status, 3);
  EXPECT_EQ(count_of("the device map does not list every device from 0 to 7 once: look at its device 6", map.errors), 1)
      << map.errors;
}

// Each problem of a file on its own: what all ranks refuse does not end the job.
TEST(MpiJobFault, GoesOnAfterAProblemThatAllRanksRefuse) {
  ProcessInput input;
  input.text = R"({"id": "three", "mesh": {"x": 3}, "shape": [9], "src": [["x"]], "dst": [[]]}
{"id": "two", "mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]}
)";
  const ProcessResult result = run_retile_job(2, {"run", "--problems", "-"}, input);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, MatchesRegex("two: 2 devices, mpi engine: verified.*\n"));
  EXPECT_EQ(count_of("error: 3 devices cannot be shared out evenly to 2 ranks", result.errors), 1) << result.errors;
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

TEST(MpiJobFault, AnMpiErrorEndsTheJobWithRankStepAndCause) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_with_fault("error", "5");
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, HasSubstr("retile: rank 2, step 0, "));
  EXPECT_THAT(result.errors, HasSubstr(": MPI_Isend: "));
}

TEST(MpiJobFault, AKilledRankEndsTheJob) {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = run_with_fault("kill", "5");
  EXPECT_LT(seconds_since(start), soon);
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, Not(HasSubstr("verified")));
}

TEST(MpiJobFault, WithoutAFaultTheSameJobEndsWell) {
  const ProcessResult result = run_with_fault("error", "1000000");
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("verified"));
}

}  // namespace
}  // namespace retile::test
