// retile draw
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Rows to columns, and what else is asked for.
std::vector<std::string> draw(std::vector<std::string> more) {
  std::vector<std::string> arguments{"draw", "--mesh", "x=2", "[2{x}4, 4]", "[4, 2{x}4]"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string contents(const TemporaryFolder& folder, const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(folder.path() + "/" + name).rdbuf();
  return text.str();
}

const std::string drawn = R"(mesh {x: 2}  // planner wide
[2{x}4, 4]  // 32 bytes per device
  rows dimension 0 (4), columns dimension 1 (4)
  ┌───────────────────────────────┐
  │               0               │
  │                               │
  ├───────────────────────────────┤
  │               1               │
  │                               │
  └───────────────────────────────┘
    -> alltoall(0 -> 1; 2)  // cost 8
       All 2 devices cut their tiles anew: each sends 16 bytes and gets 16 bytes.
       Device 0 gets [2:4, 0:2] from 1.
[4, 2{x}4]  // 32 bytes per device
  rows dimension 0 (4), columns dimension 1 (4)
  ┌───────────────┬───────────────┐
  │               │               │
  │       0       │       1       │
  │               │               │
  │               │               │
  └───────────────┴───────────────┘
// cost 8 (paper, optimal over all plans), floor 4
// peak 32 bytes per device, no more than the larger of source and target
)";

TEST(Draw, writes_text_svg_and_html) {
  EXPECT_EQ(run_retile(draw({"--as", "text"})), done(drawn));
  EXPECT_THAT(run_retile(draw({"--as", "svg"})).output, StartsWith("<svg xmlns="));
  EXPECT_THAT(run_retile(draw({"--as", "html"})).output, StartsWith("<!doctype html>"));
  EXPECT_THAT(run_retile(draw({})).output, StartsWith("<!doctype html>")) << "what is no terminal gets a page";
  EXPECT_THAT(run_retile(draw({"--as", "text", "--color", "always"})).output, HasSubstr("\033[48;2;"));
}

TEST(Draw, writes_the_file_that_its_name_says) {
  const TemporaryFolder folder;
  for (const char* name : {"a.html", "a.svg", "a.txt"}) {
    EXPECT_EQ(folder.run_retile(draw({"--out", name, "--color", "always"})), done("")) << name;
  }
  EXPECT_THAT(contents(folder, "a.html"), StartsWith("<!doctype html>"));
  EXPECT_THAT(contents(folder, "a.svg"), StartsWith("<svg xmlns="));
  EXPECT_EQ(contents(folder, "a.txt"), drawn);
  EXPECT_EQ(folder.run_retile(draw({"--out", "no/a.html"})),
            failure("retile: cannot write 'no/a.html': No such file or directory\n"));
}

TEST(Draw, takes_plans) {
  const std::string plan = run_retile({"plan", "--mesh", "x=2", "[2{x}4, 4]", "[4, 2{x}4]", "--json"}).output;
  EXPECT_EQ(run_retile({"draw", "-", "--dtype", "f32", "--as", "text"}, plan), done(drawn));
  EXPECT_THAT(run_retile({"draw", "-", "--as", "text"}, plan).output, HasSubstr("// 8 elements per device"));
  EXPECT_THAT(run_retile({"draw", "-", "--as", "html", "--beside", "xla"}, plan).output, HasSubstr("XLA&#39;s rules"));
  std::string wrong = plan;
  wrong.replace(wrong.find("[[0,1]]"), 7, "[[0],[1]]");
  const ProcessResult result = run_retile({"draw", "-", "--as", "text"}, wrong);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.errors, StartsWith("standard input:1: error: the plan is wrong: step 0"));
}

TEST(Draw, takes_plans_that_say_no_cost) {
  const std::string plan = R"({"mesh": {"x": 2}, "source": "[2{x}4]", "target": "[4]", "steps": [{"op": "allgather",)"
                           R"( "moves": [{"dim": 0, "factor": 2}], "groups": [[0, 1]], "local_out": [4],)"
                           R"( "offsets": [[0], [0]]}]})";
  const std::string text = run_retile({"draw", "-", "--as", "text"}, plan).output;
  EXPECT_THAT(text, HasSubstr("    -> allgather(0; 2)\n"));
  EXPECT_THAT(text, Not(HasSubstr("cost")));
  EXPECT_THAT(run_retile({"draw", "-", "--as", "html"}, plan).output, HasSubstr("<td>not said</td>"));
}

TEST(Draw, knows_the_elements_that_a_plan_combines) {
  const std::string plan =
      run_retile({"plan", "--json", "--mesh", "x=2", "[8] sum {x}", "[4{x}8]", "--dtype", "f64"}).output;
  EXPECT_THAT(run_retile({"draw", "-", "--as", "text"}, plan).output, HasSubstr("// 64 bytes per device"));
}

TEST(Draw, lets_no_plan_steer_the_terminal) {
  std::string plan = run_retile({"plan", "--mesh", "x=2", "[2{x}4]", "[4]", "--json"}).output;
  plan.replace(plan.find("\"wide\""), 6, R"("\u001b[31m")");
  plan.replace(plan.find("\"id\":\"\""), 7, R"("id":"\u001b[31m")");
  const ProcessResult result = run_retile({"draw", "-", "--as", "text"}, plan);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, Not(HasSubstr("\033")));
}

TEST(Draw, keeps_to_a_memory_limit_that_the_plan_beside_does_not_know) {
  const std::string text = run_retile(draw({"--as", "text", "--memory-limit", "2x", "--beside", "xla"})).output;
  EXPECT_THAT(text, HasSubstr("// planner xla\n"));
}

TEST(Draw, takes_many_problems) {
  const std::string problems = R"({"id": "one", "mesh": {"a": 2}, "shape": [4], "src": [["a"]], "dst": [[]]})"
                               "\n"
                               R"({"id": "two", "mesh": {"a": 2}, "shape": [4], "src": [["b"]], "dst": [[]]})"
                               "\n"
                               R"({"id": "three", "mesh": {"a": 2}, "shape": [4], "src": [[]], "dst": [["a"]]})"
                               "\n";
  const ProcessResult page = run_retile({"draw", "--problems", "-", "--as", "html"}, problems);
  EXPECT_EQ(page.status, 1);
  EXPECT_THAT(page.errors, StartsWith("standard input:2:"));
  EXPECT_THAT(page.output, HasSubstr("<h1 id=\"title0\">one</h1>"));
  EXPECT_THAT(page.output, HasSubstr("<h1 id=\"title1\">three</h1>"));
  const ProcessResult svg = run_retile({"draw", "--problems", "-", "--as", "svg"}, problems);
  EXPECT_EQ(svg.status, 2);
  EXPECT_THAT(svg.errors, HasSubstr("retile: an SVG shows one plan, and there are 2; --as html shows all\n"));
}

TEST(Draw, leaves_no_part_of_a_page) {
  const TemporaryFolder folder;
  const std::string script = "ulimit -f 1; exec \"$0\" draw --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --out a.html";
  EXPECT_EQ(run_process({"/bin/sh", "-c", script, RETILE_COMMAND}, {"", folder.path()}),
            failure("retile: cannot write 'a.html': File too large\n"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Draw, takes_shardings_of_other_systems) {
  const ProcessResult result =
      run_retile({"draw", "--shape", "f32[8,8]", "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "--as", "text"});
  EXPECT_THAT(result.output, StartsWith("// {devices=[4,1]<=[4]} is [2{a}8, 8] on mesh {a: 4}"));
  EXPECT_THAT(
      run_retile({"draw", "--shape", "f32[8,8]", "{devices=[4,1]<=[4]}", "{devices=[1,4]<=[4]}", "--as", "svg"}).errors,
      StartsWith("// {devices=[4,1]<=[4]} is [2{a}8, 8] on mesh {a: 4}"));
}

TEST(Draw, shows_layouts_in_the_notation_that_was_given_on_a_page) {
  const ProcessResult result = run_retile({"draw", "--mesh", "x=2", "--shape", "f32[4,4]", "PartitionSpec('x',)",
                                           "PartitionSpec(None, 'x')", "--as", "html"});
  EXPECT_THAT(result.output, HasSubstr("<code>PartitionSpec(&#39;x&#39;,) is [2{x}4, 4] on mesh {x: 2}"));
  EXPECT_THAT(run_retile(draw({"--as", "html"})).output, Not(HasSubstr("PartitionSpec")));
}

TEST(Draw, shows_a_step_alone) {
  const std::vector<std::string> arguments{
      "draw", "--mesh", "x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]", "--planner", "paper",
      "--as", "text",   "--step"};
  std::vector<std::string> second = arguments;
  second.emplace_back("2");
  const std::string text = run_retile(second).output;
  EXPECT_THAT(text, HasSubstr("-> alltoall(0 -> 1; 2)"));
  EXPECT_THAT(text, Not(HasSubstr("-> dynslice")));
  EXPECT_THAT(text, Not(HasSubstr("-> allgather")));
  std::vector<std::string> fifth = arguments;
  fifth.emplace_back("5");
  EXPECT_EQ(run_retile(fifth), input_fault(R"(argument --step:1:1: error: there is no step 5
    1 | 5
      | ^
hint: the plan has 4 steps
)"));
}

TEST(Draw, shows_the_dimensions_that_are_chosen) {
  EXPECT_THAT(run_retile(draw({"--as", "text", "--dimensions", "1,0"})).output,
              HasSubstr("rows dimension 1 (4), columns dimension 0 (4)\n"));
  EXPECT_THAT(run_retile(draw({"--as", "text", "--dimensions", "1"})).output, HasSubstr("  columns dimension 1 (4)\n"));
}

TEST(Draw, names_the_dimension_at_fault) {
  EXPECT_EQ(run_retile(draw({"--dimensions", "0,2"})),
            input_fault(R"(argument --dimensions:1:3: error: there is no dimension 2
    1 | 0,2
      |   ^
hint: the plan has 2, counted from 0
)"));
  EXPECT_EQ(run_retile(draw({"--dimensions", "1,1"})),
            input_fault(R"(argument --dimensions:1:3: error: dimension 1 is named twice
    1 | 1,1
      |   ^
)"));
  EXPECT_EQ(run_retile(draw({"--dimensions", "0;1"})),
            input_fault(R"(argument --dimensions:1:2: error: expected the end of dimensions, found ';'
    1 | 0;1
      |  ^
)"));
}

TEST(Draw, refuses_what_cannot_be_drawn) {
  EXPECT_EQ(run_retile({"draw", "--mesh", "x=8192", "[1{x}8192]", "[8192]"}),
            input_fault("error: 8,192 devices are too many for a picture\nhint: at most 4,096 are drawn\n"));
  EXPECT_EQ(run_retile({"draw", "--mesh", "x=2", "[4] sum {x}", "[2{x}4]", "--beside", "xla"}),
            input_fault("error: XLA's rules for sums are not in the model\n"));
}

TEST(Draw, usage) {
  const auto fault = [](const std::string& message) {
    return usage_fault("retile: " + message + "\nTry 'retile draw --help'.\n");
  };
  EXPECT_EQ(run_retile(draw({"--step", "1", "--as", "html"})),
            fault("--step goes with --as svg or text: a page has all steps"));
  EXPECT_EQ(run_retile(draw({"--out", "plan.pdf"})),
            fault("'plan.pdf' ends in none of .html, .svg and .txt; name the format, as in --as svg"));
  EXPECT_EQ(run_retile({"draw", "-", "--planner", "wide"}),
            fault("a file of plans cannot be combined with --planner, --machine, --memory-limit, --no-exchange or "
                  "--relabel"));
  EXPECT_EQ(run_retile({"draw", "[2{x}4]", "--mesh", "x=2"}),
            fault("a file of plans cannot be combined with --mesh or --shape; a problem needs both SRC and DST"));
  EXPECT_EQ(run_retile(draw({"--as", "pdf"})), fault("--as: 'pdf' is unknown; use one of: html, svg, text"));
  EXPECT_EQ(run_retile(draw({"--step", "0", "--as", "svg"})).status, 2);
}

}  // namespace
}  // namespace retile::test
