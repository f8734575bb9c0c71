// What the command does on a terminal: colours, the progress bar; and when its results appear.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

// All that the command writes where input, output and errors are one terminal. `environment` is NAME=VALUE.
std::string run_on_terminal(const std::vector<std::string>& environment, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"/usr/bin/env", "TERM=xterm"};
  words.insert(words.end(), environment.begin(), environment.end());
  words.emplace_back(RETILE_COMMAND);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) throw std::runtime_error("forkpty failed");
  if (child == 0) {
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(terminal, buffer, sizeof buffer)) > 0;) {  // fails when the other end is closed
    text.append(buffer, static_cast<std::size_t>(count));
  }
  close(terminal);
  waitpid(child, nullptr, 0);
  return text;
}

const std::vector<std::string> plan{"plan", "--mesh", "x=4", "[2{x}8, 8]", "[8, 8]", "--planner", "paper"};
const std::vector<std::string> wrong_plan{"plan", "--mesh", "x=4", "[2{y}8, 8]", "[8, 8]"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& option, const std::string& value) {
  arguments.push_back(option);
  arguments.push_back(value);
  return arguments;
}

// --- Colours.

TEST(Color, of_a_diagnostic_marks_error_caret_and_hint) {
  EXPECT_EQ(run_retile(with(wrong_plan, "--color", "always")),
            input_fault("argument SRC:1:4: \033[1;31merror:\033[0m unknown axis y\n"
                        "    1 | [2{y}8, 8]\n"
                        "      |    \033[1;31m^\033[0m\n"
                        "\033[1;32mhint:\033[0m the mesh has x\n"));
}

TEST(Color, of_a_plan_marks_its_heading_and_steps) {
  EXPECT_EQ(run_retile(with(plan, "--color", "always")),
            done("\033[1mmesh {x: 4}  // planner paper\033[0m\n"
                 "  [2{x}8, 8]  // 16 elements per device\n"
                 "    -> \033[36mallgather(0; 4)\033[0m  // cost 64\n"
                 "  [8, 8]      // 64\n"
                 "// cost 64 (paper, optimal over all plans), floor 48\n"
                 "// peak 64 elements per device, no more than the larger of source and target\n"));
}

TEST(Color, is_for_terminals_unless_told_otherwise) {
  const std::string escape = "\033[";
  EXPECT_THAT(run_on_terminal({}, plan), HasSubstr(escape));
  EXPECT_THAT(run_on_terminal({}, wrong_plan), HasSubstr(escape));
  EXPECT_THAT(run_on_terminal({"NO_COLOR="}, plan), HasSubstr(escape));
  EXPECT_THAT(run_on_terminal({"OMPI_COMM_WORLD_SIZE=1"}, plan), Not(HasSubstr(escape)));  // it is mpirun's own
  EXPECT_THAT(run_on_terminal({"NO_COLOR=1"}, plan), Not(HasSubstr(escape)));
  EXPECT_THAT(run_on_terminal({"NO_COLOR=1"}, wrong_plan), Not(HasSubstr(escape)));
  EXPECT_THAT(run_on_terminal({"NO_COLOR=1"}, with(plan, "--color", "always")), HasSubstr(escape));
  EXPECT_THAT(run_on_terminal({"TERM=dumb"}, plan), Not(HasSubstr(escape)));
  EXPECT_THAT(run_on_terminal({}, with(plan, "--color", "never")), Not(HasSubstr(escape)));
  EXPECT_THAT(run_retile(plan).output, Not(HasSubstr(escape)));
  EXPECT_THAT(run_retile(wrong_plan).errors, Not(HasSubstr(escape)));
}

// --- Pictures.

TEST(Picture, is_text_on_a_terminal) {
  const std::vector<std::string> draw{"draw", "--mesh", "x=2", "[2{x}4]", "[4]"};
  EXPECT_THAT(run_on_terminal({"NO_COLOR=1"}, draw), StartsWith("mesh {x: 2}  // planner wide\r\n"));
  EXPECT_THAT(run_retile(draw).output, StartsWith("<!doctype html>"));
}

// --- Progress.

TEST(Progress, shows_on_a_terminal_and_leaves_before_the_result) {
  const TemporaryFolder folder;
  const std::string results = folder.path() + "/results.jsonl";
  const std::string text =
      run_on_terminal({}, {"bench", "--samples", "1000000", "--scale", "1e-9", "--axes", "2", "--contenders", "memcpy",
                           "--repeat", "1", "--time-limit", "2.5", "--out", results});
  EXPECT_THAT(text, HasSubstr("\r\033[Kmeasuring ["));
  const std::size_t result = text.rfind(" of 1,000,000 problems");
  ASSERT_NE(result, std::string::npos);
  const std::string last_line = text.substr(text.rfind("\033[K", result));
  EXPECT_THAT(last_line, MatchesRegex("\033\\[K[0-9,]+ of 1,000,000 problems, [^\n]*\n"));
}

// --- When results appear.

TEST(Results, appear_as_they_are_made) {
  const std::string line = R"({"mesh": {"a": 2}, "shape": [4], "src": [["a"]], "dst": [[]], "id": "first"})";
  for (const std::string command : {"plan --json", "run --json"}) {
    const ProcessResult result = run_process({"/bin/sh", "-c", "$0 " + command + " --problems - 2>&1", RETILE_COMMAND},
                                             {line + "\n7\n" + line + "\n"});
    const std::vector<std::string> lines = lines_of(result.output);
    ASSERT_EQ(lines.size(), 5U) << result.output;
    EXPECT_THAT(lines[0], HasSubstr("\"first\""));
    EXPECT_EQ(lines[1], "standard input:2:1: error: the problem must be an object, not an integer");
    EXPECT_THAT(lines[4], HasSubstr("\"first\""));
  }
}

}  // namespace
}  // namespace retile::test
