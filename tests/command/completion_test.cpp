// What shells complete, and the page of the manual.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The words for the last of these, without what they mean.
std::vector<std::string> complete(std::vector<std::string> words) {
  words.insert(words.begin(), {"complete", "--"});
  const ProcessResult result = run_retile(words);
  EXPECT_EQ(result.status, 0) << result.errors;
  std::vector<std::string> found;
  for (const std::string& line : lines_of(result.output)) found.push_back(line.substr(0, line.find('\t')));
  return found;
}

TEST(Completion, of_subcommands) {
  const auto all = ElementsAre("plan", "run", "transfer", "rechunk", "reshard", "explain", "draw", "emit", "verify",
                               "normalize", "check", "fmt", "lower", "bench", "calibrate", "help");
  EXPECT_THAT(complete({""}), all);
  EXPECT_THAT(complete({}), all);
  EXPECT_THAT(complete({"help", ""}), all);
  EXPECT_THAT(complete({"ver"}), ElementsAre("verify"));
  EXPECT_EQ(run_retile({"complete", "--", "ver"}).output, "verify\tCheck plans from a file\n");
}

TEST(Completion, of_options) {
  EXPECT_THAT(complete({"-"}), ElementsAre("--help", "--version"));
  EXPECT_THAT(complete({"plan", "--p"}), ElementsAre("--problems", "--planner"));
  EXPECT_THAT(complete({"verify", "plan.json", "--"}), ElementsAre("--help", "--json", "--color"));
  EXPECT_THAT(complete({"run", "--json", "--no-"}), ElementsAre("--no-exchange"));
  for (const char* command : {"plan", "run", "explain", "draw", "emit", "transfer", "bench"}) {
    EXPECT_THAT(complete({command, "--mac"}), ElementsAre("--machine")) << command;
  }
  for (const char* command : {"plan", "run", "explain", "draw", "emit"}) {
    EXPECT_THAT(complete({command, "--rel"}), ElementsAre("--relabel")) << command;
  }
}

TEST(Completion, of_values) {
  EXPECT_THAT(complete({"plan", "--planner", ""}),
              ElementsAre("auto", "wide", "paper", "direct", "lean", "gather-slice", "two-level", "xla"));
  EXPECT_THAT(complete({"plan", "--cost", ""}), ElementsAre("paper", "volume", "seconds"));
  EXPECT_THAT(complete({"run", "--engine", "r"}), ElementsAre("reference"));
  EXPECT_THAT(complete({"run", "--dtype", "f"}), ElementsAre("f8e4m3fn", "f8e5m2", "f16", "f32", "f64"));
  EXPECT_THAT(complete({"lower", "p.spmd", "--dump-after", ""}), ElementsAre("parse", "check", "lower"));
  EXPECT_THAT(complete({"bench", "--contenders", "x"}), ElementsAre("xla"));
  EXPECT_THAT(complete({"plan", "--planner=w"}), ElementsAre("--planner=wide"));
  EXPECT_THAT(complete({"plan", "--planner", "=", "w"}), ElementsAre("wide"));
  EXPECT_THAT(complete({"plan", "--color", "="}), ElementsAre("auto", "always", "never"));
}

TEST(Completion, leaves_files_and_free_values_to_the_shell) {
  EXPECT_THAT(complete({"verify", ""}), ElementsAre());
  EXPECT_THAT(complete({"plan", "--problems", ""}), ElementsAre());
  EXPECT_THAT(complete({"plan", "--machine", "exa"}), ElementsAre());
  EXPECT_THAT(complete({"plan", "--mesh", "x=4"}), ElementsAre());
}

// --- The scripts of the shells.

std::string script(const std::string& name) {
  return std::string(RETILE_SOURCE_DIR) + "/tools/retile/completion/" + name;
}

bool is_there(const std::string& program) {
  return run_process({"/bin/sh", "-c", "command -v $0 >/dev/null", program}).status == 0;
}

// Runs the lines with the command on the path and the script's path as $0, fish: $argv[1].
ProcessResult run_shell(const std::string& shell, const std::string& script_path, const std::string& lines) {
  const std::string folder = std::filesystem::path(RETILE_COMMAND).parent_path().string();
  return run_process(
      {"/bin/sh", "-c", R"(PATH="$0:$PATH"; export PATH; exec "$@")", folder, shell, "-c", lines, script_path});
}

TEST(CompletionScript, works_in_bash) {
  if (!is_there("bash")) GTEST_SKIP() << "there is no bash";
  const std::string lines = R"(
source "$0"
COMP_WORDS=(retile plan --planner = w) COMP_CWORD=4
_retile retile
echo "${COMPREPLY[@]}"
COMP_WORDS=(retile '') COMP_CWORD=1
_retile retile
echo "${COMPREPLY[@]}"
complete -p retile
)";
  EXPECT_EQ(run_shell("bash", script("retile.bash"), lines),
            done("wide\nplan run transfer rechunk reshard explain draw emit verify normalize check fmt lower bench "
                 "calibrate help\n"
                 "complete -o default -F _retile retile\n"));
}

TEST(CompletionScript, works_in_fish) {
  if (!is_there("fish")) GTEST_SKIP() << "there is no fish";
  const std::string lines = R"(
set -x HOME (mktemp -d)
source $argv[1]
complete -C 'retile run --engine r'
complete -C 'retile ver'
rm -r $HOME
)";
  EXPECT_EQ(run_shell("fish", script("retile.fish"), lines), done("reference\nverify\tCheck plans from a file\n"));
}

TEST(CompletionScript, is_read_by_zsh) {
  if (!is_there("zsh")) GTEST_SKIP() << "there is no zsh";
  EXPECT_EQ(run_shell("zsh", script("_retile"), "zsh -n $0"), done(""));
}

// --- The manual.

TEST(Manual, tells_of_every_subcommand_and_option) {
  const std::string page = run_retile({"man"}).output;
  EXPECT_TRUE(page.starts_with(".TH RETILE 1 "));
  const std::vector<std::string> lines = lines_of(page);
  for (const std::string command : {"plan", "run", "transfer", "rechunk", "reshard", "explain", "draw", "emit",
                                    "verify", "normalize", "check", "fmt", "lower", "bench", "calibrate", "help"}) {
    EXPECT_THAT(lines, Contains(".SH RETILE " + command));
  }
  EXPECT_THAT(lines, Contains(".B \\-\\-planner \\fINAME=auto\\fR"));
  EXPECT_THAT(lines, Contains(".B \\-\\-no\\-exchange"));
  EXPECT_THAT(page, HasSubstr("    retile plan \\-\\-mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' \\-\\-json\n"));
}

TEST(Manual, is_set_without_complaints) {
  if (!is_there("groff")) GTEST_SKIP() << "there is no groff";
  const ProcessResult result =
      run_process({"/bin/sh", "-c", R"("$0" man | groff -man -Tutf8 -ww -z 2>&1)", RETILE_COMMAND});
  EXPECT_EQ(result, done(""));
}

TEST(HiddenSubcommands, are_not_in_the_help) {
  EXPECT_THAT(run_retile({"--help"}).output, Not(HasSubstr("\n  complete ")));
  EXPECT_THAT(run_retile({"--help"}).output, Not(HasSubstr("\n  man ")));
}

}  // namespace
}  // namespace retile::test
