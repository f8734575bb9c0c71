// The command as these tests see it: run once, with what it wrote and how it ended.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace retile::test {

using Json = nlohmann::ordered_json;

ProcessResult run_retile(std::vector<std::string> arguments, const ProcessInput& input = {});
// With this text on standard input.
ProcessResult run_retile(std::vector<std::string> arguments, const std::string& text);

// What each exit status promises of the rest.
ProcessResult done(const std::string& output);
ProcessResult input_fault(const std::string& errors);
ProcessResult usage_fault(const std::string& errors);
ProcessResult failure(const std::string& errors);

// Runs the command and expects it to end within seconds: for work that must not grow with the devices.
ProcessResult run_retile_quickly(std::vector<std::string> arguments);

// The arguments, and more after them.
std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more);

std::vector<std::string> lines_of(const std::string& text);
std::vector<std::string> keys_of(const Json& object);

// The text of a file of the repository.
std::string read_source_file(const std::string& path);

// A folder that is removed with its files.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;
  // The command, run in the folder: diagnostics name its files as the arguments do.
  ProcessResult run_retile(std::vector<std::string> arguments) const;

 private:
  std::string path_;
};

}  // namespace retile::test
