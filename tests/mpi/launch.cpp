#include "tests/mpi/launch.h"

#include <gtest/gtest.h>

namespace retile::test {
namespace {

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

constexpr int waits_forever = 124;  // the status of a job that takes more than a minute, which is ended then

}  // namespace

// mpirun with the flags that this machine needs, then what it is to start.
ProcessResult launch(const std::vector<std::string>& job, const ProcessInput& input) {
  std::vector<std::string> arguments{"/usr/bin/timeout", "60"};
  const std::vector<std::string> launcher = split(RETILE_MPI_LAUNCHER, '|');
  arguments.insert(arguments.end(), launcher.begin(), launcher.end());
  arguments.insert(arguments.end(), job.begin(), job.end());
  const ProcessResult result = run_process(arguments, input);
  EXPECT_NE(result.status, waits_forever) << result.errors;
  return result;
}

ProcessResult run_job(int ranks, std::vector<std::string> program, const ProcessInput& input) {
  program.insert(program.begin(), {"-n", std::to_string(ranks)});
  return launch(program, input);
}

int count_of(const std::string& part, const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace retile::test
