// What the command says of itself, and where its usage is at fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "retile/version.h"
#include "tests/command/retile.h"
#include "tests/support/heap.h"

namespace retile::test {
namespace {

using Output = ProcessInput::Output;

TEST(Version, is_one_line) { EXPECT_EQ(run_retile({"--version"}), done("retile " RETILE_VERSION "\n")); }

TEST(Help, introduces_the_command) {
  const ProcessResult result = run_retile({"--help"});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.errors, "");
  EXPECT_EQ(result, run_retile({"-h"}));
  const std::string expected = R"(retile moves sharded arrays between layouts.

Devices form a mesh of named axes; a type such as [8{x,y}32, 128] says how an array is cut over them.
retile plans the steps from one type to another, checks plans, and runs them on real data.

Usage: retile [OPTIONS] SUBCOMMAND
)";
  EXPECT_EQ(result.output.substr(0, expected.size()), expected);
}

TEST(Help, of_a_subcommand_is_given_by_help_too) {
  EXPECT_EQ(run_retile({"help"}), run_retile({"--help"}));
  for (const std::string command : {"plan", "bench", "help"}) {
    EXPECT_EQ(run_retile({"help", command}), run_retile({command, "--help"}));
  }
}

// The shell lines of a help text: those that start with a program, and what follows a trailing pipe.
std::vector<std::string> examples_in(const std::string& help) {
  std::vector<std::string> examples;
  bool continues = false;
  for (const std::string& line : lines_of(help)) {
    const std::string text = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    const bool indented = text.size() < line.size();
    const bool starts = text.starts_with("retile ") || text.starts_with("echo ") || text.starts_with("printf ");
    if (continues) {
      examples.back() += text;
    } else if (indented && starts) {
      examples.push_back(text);
    }
    continues = text.ends_with("|");
  }
  return examples;
}

void expect_examples_run(const std::vector<std::string>& help_arguments) {
  const std::vector<std::string> examples = examples_in(run_retile(help_arguments).output);
  EXPECT_FALSE(examples.empty());
  const std::string folder = std::filesystem::path(RETILE_COMMAND).parent_path().string();
  for (const std::string& example : examples) {
    if (is_capped_too_tightly(example)) continue;
    const TemporaryFolder here;  // some write a file
    const ProcessResult result =
        run_process({"/bin/sh", "-c", R"(PATH="$0:$PATH"; eval "$1")", folder, example}, {"", here.path()});
    EXPECT_EQ(result.status, 0) << example << "\n" << result.errors;
    EXPECT_EQ(result.errors, "") << example;
    EXPECT_TRUE(!result.output.empty() || !std::filesystem::is_empty(here.path())) << example;
  }
}

TEST(Help, examples_run_when_pasted) {
  expect_examples_run({"--help"});
  for (const std::string command : {"plan", "run", "transfer", "rechunk", "reshard", "explain", "draw", "emit",
                                    "verify", "normalize", "check", "fmt", "lower"}) {
    expect_examples_run({command, "--help"});
  }
}

struct UsageCase {
  std::vector<std::string> arguments;
  std::string message;
  std::string help;  // the subcommand whose help is recommended
};

void expect_usage_faults(const std::vector<UsageCase>& cases) {
  for (const UsageCase& usage : cases) {
    const std::string advice = "Try 'retile " + (usage.help.empty() ? "" : usage.help + " ") + "--help'.\n";
    EXPECT_EQ(run_retile(usage.arguments), usage_fault("retile: " + usage.message + "\n" + advice));
  }
}

TEST(Usage, needs_a_subcommand_that_exists) {
  expect_usage_faults({
      {{},
       "a subcommand is needed: plan, run, transfer, rechunk, reshard, explain, draw, emit, verify, normalize, check, "
       "fmt, "
       "lower, bench, calibrate, "
       "help",
       ""},
      {{"paln"},
       "unknown subcommand paln; did you mean plan? there are plan, run, transfer, rechunk, reshard, explain, draw, "
       "emit, "
       "verify, "
       "normalize, "
       "check, fmt, "
       "lower, bench, calibrate, "
       "help",
       ""},
      {{"prepare"},
       "unknown subcommand prepare; there are plan, run, transfer, rechunk, reshard, explain, draw, emit, verify, "
       "normalize, "
       "check, fmt, "
       "lower, "
       "bench, calibrate, "
       "help",
       ""},
      {{""},
       "unknown subcommand ; there are plan, run, transfer, rechunk, reshard, explain, draw, emit, verify, normalize, "
       "check, "
       "fmt, lower, "
       "bench, calibrate, "
       "help",
       ""},
      {{"help", "paln"},
       "COMMAND: 'paln' is unknown; did you mean plan? use one of: plan, run, transfer, rechunk, reshard, explain, "
       "draw, emit, "
       "verify, "
       "normalize, "
       "check, "
       "fmt, "
       "lower, "
       "bench, calibrate, help",
       "help"},
      {{"--verbose"}, "unknown option --verbose", ""},
      {{"--verbose", "plan"}, "unknown option --verbose", "plan"},
      {{"--color", "always", "plan"}, "--color goes behind the subcommand: retile plan --color", "plan"},
  });
}

TEST(Usage, unknown_options_are_named) {
  expect_usage_faults({
      {{"plan", "--jsn", "--mesh", "x=4", "[8]", "[8]"}, "unknown option --jsn; did you mean --json?", "plan"},
      {{"plan", "--version"}, "unknown option --version", "plan"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--speed", "9"}, "unknown option --speed; did you mean --seed?", "run"},
      {{"plan", "--mseh=x=4", "[8]", "[8]"}, "unknown option --mseh; did you mean --mesh?", "plan"},
      {{"plan", "--plannner", "wide"}, "unknown option --plannner; did you mean --planner?", "plan"},
      {{"plan", "--mesh", "x=4", "[8]", "-x"}, "unknown option -x", "plan"},
      {{"verify", "--full", "plan.json"}, "unknown option --full", "verify"},
      {{"normalize", "-v", "sequence.txt"}, "unknown option -v", "normalize"},
  });
}

TEST(Usage, too_many_arguments) {
  const std::string quotes = "; types need quotes in a shell, as in '[2{x}8, 8]'";
  expect_usage_faults({
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "[8]"}, "one argument too many: [8]" + quotes, "plan"},
      {{"plan", "--mesh", "x=2", "[2{x}4,", "8]", "[4,", "8]"}, "one argument too many: [4," + quotes, "plan"},
      {{"plan", "--mesh", "x=2", "[2{x}4,", "8]"}, "SRC ends with a comma: [2{x}4," + quotes, "plan"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "plan"}, "one argument too many: plan", "run"},
      {{"plan", "--mesh", "x=2", "y=4", "[8]", "[8]"},
       "y=4 stands apart from the mesh: commas without spaces join its axes, as in --mesh x=2,y=4",
       "plan"},
      {{"verify", "a.json", "b.json"}, "one argument too many: b.json", "verify"},
      {{"normalize", "a.txt", "b.txt"}, "one argument too many: b.txt", "normalize"},
  });
}

TEST(Usage, too_few_arguments) {
  const std::string nothing = "nothing to do: give --mesh, SRC and DST, or --problems FILE";
  const std::string mesh = "SRC and DST need --mesh, as in --mesh a=2,b=2";
  expect_usage_faults({
      {{"plan"}, nothing, "plan"},
      {{"run"}, "nothing to do: give a program, or --mesh, SRC and DST, or --problems FILE", "run"},
      {{"plan", "--mesh", "x=4"}, "SRC and DST are both needed", "plan"},
      {{"plan", "--mesh", "x=4", "[8]"}, "SRC and DST are both needed", "plan"},
      {{"plan", "[8]"}, "SRC and DST are both needed", "plan"},
      {{"plan", "[8]", "[8]"}, mesh, "plan"},
      {{"run", "[8]", "[8]"}, mesh, "run"},
      {{"plan", "--mesh"}, "--mesh needs a value", "plan"},
      {{"plan", "--problems"}, "--problems needs a value", "plan"},
      {{"run", "--seed"}, "--seed needs a value", "run"},
      {{"verify"}, "PLAN is required", "verify"},
      {{"normalize"}, "SEQUENCE is required", "normalize"},
      {{"check"}, "FILE is required", "check"},
      {{"fmt"}, "FILE is required", "fmt"},
      {{"lower"}, "FILE is required", "lower"},
  });
}

TEST(Usage, arguments_that_contradict_each_other) {
  const std::string alone = "--problems cannot be combined with --mesh, SRC or DST";
  const std::string program = "a program cannot be combined with other arguments, --mesh or --problems";
  expect_usage_faults({
      {{"plan", "--problems", "p.jsonl", "--mesh", "x=4"}, alone, "plan"},
      {{"run", "--problems", "p.jsonl", "[8]", "[8]"}, alone, "run"},
      {{"run", "p.spmd", "--mesh", "x=4"}, program, "run"},
      {{"run", "p.spmd", "q.spmd"}, program, "run"},
      {{"run", "--problems", "p.jsonl", "--dtype", "f64"},
       "--dtype goes with SRC and DST; in a file, each problem has its own",
       "run"},
      {{"plan", "--mesh", "x=4", "--mesh", "y=4", "[8]", "[8]"}, "--mesh is given more than once", "plan"},
      {{"plan", "--problems", "p.jsonl", "--problems", "q.jsonl"}, "--problems is given more than once", "plan"},
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--full"}, "--full goes with --json", "plan"},
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--donate"}, "--donate goes with --memory-limit", "plan"},
      {{"bench", "--problems", "p.jsonl", "--rank", "3"},
       "--rank goes with sampled problems, not with --problems",
       "bench"},
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--no-exchange", "--planner", "direct"},
       "--no-exchange and --planner direct contradict each other: direct is one exchange",
       "plan"},
      {{"lower", "p.spmd", "--no-exchange", "--planner", "direct"},
       "--no-exchange and --planner direct contradict each other: direct is one exchange",
       "lower"},
      {{"lower", "p.spmd", "--dump-after", "check", "--json"},
       "--dump-after cannot be combined with --summary or --json",
       "lower"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--transport", "auto"},
       "--transport goes with --engine mpi, not threads",
       "run"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--engine", "reference", "--staging", "1048576"},
       "--staging goes with --engine mpi, not reference",
       "run"},
      {{"run", "p.spmd", "--device-map", "row-major"}, "--device-map goes with --engine mpi, not threads", "run"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--engine", "reference", "--threads", "2"},
       "--threads goes with --engine threads, not reference",
       "run"},
      {{"bench", "--engine", "reference", "--threads", "2"},
       "--threads goes with --engine threads, not reference",
       "bench"},
      {{"run", "p.spmd", "--out", "a=x.npy", "--out", "b=./x.npy"},
       "--out: 'a' and 'b' are written to one file, './x.npy'",
       "run"},
      {{"fmt", "p.spmd", "--check", "-i"}, "--check and --in-place contradict each other", "fmt"},
      {{"fmt", "-", "-i"}, "--in-place needs files: standard input cannot be written back", "fmt"},
  });
}

TEST(Usage, values_that_an_option_does_not_take) {
  expect_usage_faults({
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--dtype", "f33"},
       "--dtype: 'f33' is unknown; did you mean f32? use one of: bool i8 i16 i32 i64 u8 u16 u32 u64 f8e4m3fn f8e5m2 "
       "f16 bf16 f32 f64 c64 c128",
       "plan"},
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--cost", "time"},
       "--cost: 'time' is unknown; use one of: paper, volume, seconds",
       "plan"},
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--planner", "best"},
       "--planner: 'best' is unknown; use one of: auto, wide, paper, direct, lean, gather-slice, two-level, xla",
       "plan"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--engine", "steam"},
       "--engine: 'steam' is unknown; use one of: threads, reference, cuda, mpi",
       "run"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--staging", "1KiB"},
       "--staging: '1KiB' is no size from 4096 to 1073741824 bytes; write 4096 or 8MiB",
       "run"},
      {{"run", "--mesh", "x=4", "[8]", "[8]", "--staging", "much"},
       "--staging: 'much' is no size from 4096 to 1073741824 bytes; write 4096 or 8MiB",
       "run"},
      {{"plan", "--mesh", "x=4", "[8]", "[8]", "--effort", "0"},
       "--effort: '0' is no number from 0.001 to 1000",
       "plan"},
      {{"run", "--threads", "0"}, "--threads: '0' is no whole number from 1 to 4096", "run"},
      {{"run", "--threads", "4097"}, "--threads: '4097' is no whole number from 1 to 4096", "run"},
      {{"lower", "p.spmd", "--dump-after", "optimize"},
       "--dump-after: 'optimize' is unknown; use one of: parse, check, lower",
       "lower"},
      {{"run", "--repeat", "0"}, "--repeat: '0' is no whole number from 1 to 1000000", "run"},
      {{"run", "--repeat", "1000001"}, "--repeat: '1000001' is no whole number from 1 to 1000000", "run"},
      {{"run", "--repeat", "1.5"}, "--repeat: '1.5' is no whole number from 1 to 1000000", "run"},
      {{"run", "--repeat", "often"}, "--repeat: 'often' is no whole number from 1 to 1000000", "run"},
      {{"run", "--repeat", ""}, "--repeat: '' is no whole number from 1 to 1000000", "run"},
      {{"run", "--seed", "-1"}, "--seed: '-1' is no whole number from 0 to 18446744073709551615", "run"},
      {{"run", "--seed", "18446744073709551616"},
       "--seed: '18446744073709551616' is no whole number from 0 to 18446744073709551615",
       "run"},
  });
}

TEST(Usage, options_may_stand_anywhere_and_take_their_values_with_an_equals_sign) {
  const ProcessResult usual = run_retile({"plan", "--mesh", "x=4", "[8]", "[8]", "--cost", "volume"});
  EXPECT_EQ(usual.status, 0);
  EXPECT_EQ(run_retile({"plan", "[8]", "--cost=volume", "[8]", "--mesh=x=4"}), usual);
}

// --- Where the output cannot be written.

// More than any buffer holds, so that writing fails before the end, too.
std::string many_problems() {
  std::string text;
  for (int i = 0; i < 50; ++i) text += read_source_file("examples/paper.jsonl");
  return text;
}

TEST(Output, to_a_full_device_fails) {
  const ProcessResult full = failure("retile: cannot write to standard output: No space left on device\n");
  EXPECT_EQ(run_retile({"--help"}, {"", ".", Output::full_device}), full);
  EXPECT_EQ(run_retile({"--version"}, {"", ".", Output::full_device}), full);
  EXPECT_EQ(run_retile({"plan", "--mesh", "x=4", "[8]", "[8]"}, {"", ".", Output::full_device}), full);
  EXPECT_EQ(run_retile({"plan", "--problems", "-", "--json"}, {many_problems(), ".", Output::full_device}), full);
}

TEST(Output, that_is_closed_fails) {
  const ProcessResult closed = failure("retile: cannot write to standard output: Bad file descriptor\n");
  EXPECT_EQ(run_retile({"plan", "--mesh", "x=4", "[8]", "[8]"}, {"", ".", Output::closed}), closed);
}

TEST(Output, to_a_pipe_that_nobody_reads_ends_quietly) {
  constexpr int ended_by_broken_pipe = 128 + 13;
  const ProcessResult ended{ended_by_broken_pipe, "", ""};
  EXPECT_EQ(run_retile({"plan", "--problems", "-", "--json"}, {many_problems(), ".", Output::closed_pipe}), ended);
  EXPECT_EQ(run_retile({"--help"}, {"", ".", Output::closed_pipe}), ended);
}

TEST(Output, that_is_not_needed_may_be_closed) {
  const std::string fault = R"(argument --mesh:1:3: error: the size of axis x is 0
    1 | x=0
      |   ^
hint: sizes start at 1
)";
  EXPECT_EQ(run_retile({"plan", "--mesh", "x=0", "[8]", "[8]"}, {"", ".", Output::closed}), input_fault(fault));
}

}  // namespace
}  // namespace retile::test
