// Every program in examples/ runs to what the .expected file beside it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::optional<double> number_in(const std::string& word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return number;
}

// "*" stands for any word. Numbers may differ a little: mathematical functions do, between one machine and another.
// What does not is pinned down by its checksum.
bool matches(const std::string& word, const std::string& expected) {
  if (expected == "*" || word == expected) return true;
  const auto is = number_in(word);
  const auto should = number_in(expected);
  return is && should && std::abs(*is - *should) <= 1e-4 * std::max(1.0, std::abs(*should));
}

void expect_match(const std::string& text, const std::string& expected) {
  const std::vector<std::string> words = words_of(text);
  const std::vector<std::string> expected_words = words_of(expected);
  ASSERT_EQ(words.size(), expected_words.size()) << text << "\ninstead of\n" << expected;
  for (std::size_t i = 0; i < words.size(); ++i) {
    EXPECT_TRUE(matches(words[i], expected_words[i])) << words[i] << " instead of " << expected_words[i] << "\n"
                                                      << text;
  }
}

// Paths from the root of the repository. examples/wrong.spmd is for the checker.
std::vector<std::string> example_programs() {
  namespace fs = std::filesystem;
  const fs::path root(RETILE_SOURCE_DIR);
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / "examples")) {
    if (entry.path().extension() != ".spmd" || entry.path().filename() == "wrong.spmd") continue;
    paths.push_back(fs::relative(entry.path(), root).generic_string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

class Example : public ::testing::TestWithParam<std::string> {};

ProcessResult run_example(const std::string& path, const std::string& option) {
  ProcessInput input;
  input.folder = RETILE_SOURCE_DIR;
  return run_retile({"run", path, option}, input);
}

TEST_P(Example, runs_as_expected_on_every_engine) {
  const std::string expected = read_source_file(std::filesystem::path(GetParam()).replace_extension(".expected"));
  for (const char* option : {"--engine=reference", "--engine=threads"}) {
    const ProcessResult result = run_example(GetParam(), option);
    expect_match(result.output + result.errors, expected);
    EXPECT_EQ(result.status, expected.starts_with("examples/") ? 3 : 0);  // a failure's message starts with its place
  }
}

TEST_P(Example, is_the_same_without_planner_and_engine) {
  const ProcessResult result = run_example(GetParam(), "--verify");
  const bool fails = run_example(GetParam(), "--json").status == 3;
  EXPECT_EQ(result.status, fails ? 3 : 0);
  EXPECT_THAT(result.output, ::testing::HasSubstr(fails ? "" : " engine: verified, "));
}

std::string name_of_example(const ::testing::TestParamInfo<std::string>& example) {
  std::string name = example.param;
  const auto is_odd = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; };
  std::replace_if(name.begin(), name.end(), is_odd, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Programs, Example, ::testing::ValuesIn(example_programs()), name_of_example);

TEST(ExampleMatcher, tells_words_and_numbers_apart) {
  EXPECT_TRUE(matches("0.50001", "0.5"));
  EXPECT_FALSE(matches("0.501", "0.5"));
  EXPECT_FALSE(matches("0x51", "0x50"));
  EXPECT_FALSE(matches("-1", "1"));
  EXPECT_TRUE(matches("anything", "*"));
  EXPECT_FALSE(matches("nan", "1"));
}

}  // namespace
}  // namespace retile::test
