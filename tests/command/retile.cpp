#include "tests/command/retile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace retile::test {

ProcessResult run_retile(std::vector<std::string> arguments, const ProcessInput& input) {
  arguments.insert(arguments.begin(), RETILE_COMMAND);
  return run_process(arguments, input);
}

ProcessResult run_retile(std::vector<std::string> arguments, const std::string& text) {
  ProcessInput input;
  input.text = text;
  return run_retile(std::move(arguments), input);
}

ProcessResult run_retile_quickly(std::vector<std::string> arguments) {
  const auto start = std::chrono::steady_clock::now();
  ProcessResult result = run_retile(std::move(arguments));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_LT(seconds, 10);
  return result;
}

ProcessResult done(const std::string& output) { return {0, output, ""}; }
ProcessResult input_fault(const std::string& errors) { return {1, "", errors}; }
ProcessResult usage_fault(const std::string& errors) { return {2, "", errors}; }
ProcessResult failure(const std::string& errors) { return {3, "", errors}; }

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::string read_source_file(const std::string& path) {
  std::ifstream file(std::string(RETILE_SOURCE_DIR) + "/" + path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TemporaryFolder::TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "retile.XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make a folder in " + path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path_ + "/" + name, std::ios::binary) << text;
}

ProcessResult TemporaryFolder::run_retile(std::vector<std::string> arguments) const {
  ProcessInput input;
  input.folder = path_;
  return test::run_retile(std::move(arguments), input);
}

}  // namespace retile::test
