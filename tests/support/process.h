// Runs a program as a user would: arguments and standard input in, output and exit status out.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace retile::test {

struct ProcessResult {
  int status = 0;  // 128 plus the signal's number where a signal ended it, as shells have it
  std::string output;
  std::string errors;

  bool operator==(const ProcessResult&) const = default;
};

// For gtest: the texts as they are, not escaped into one line.
void PrintTo(const ProcessResult& result, std::ostream* out);

struct ProcessInput {
  std::string text;          // on standard input
  std::string folder = ".";  // to run in
  enum class Output { captured, full_device, closed_pipe, closed } output = Output::captured;
};

// The first argument is the program's path. Nothing is interpreted by a shell.
ProcessResult run_process(const std::vector<std::string>& arguments, const ProcessInput& input = {});

}  // namespace retile::test
