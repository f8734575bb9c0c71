// retile check, fmt and lower.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

constexpr const char* right = "mesh {x: 2}\n\nfn f(a: [4{x}8]) -> [8] {\n  b = undistribute a\n  return b\n}\n";
constexpr const char* untidy = "mesh {x: 2} fn f(a: [4{x}8]) -> [8] { b = undistribute a return b }";
constexpr const char* wrong = "mesh {x: 2}\nfn f(a: [4{x}8]) -> [9] {\n  b = undistribute c\n  return a\n}\n";
constexpr const char* unreadable = "mesh {x: 2}\nfn f(a: [4{x}8]) -> [8] {\n  b = undistribute\n  return a\n}\n";

const std::string wrong_said = R"(p.spmd:3:20: error: there is no value c
    3 |   b = undistribute c
      |                    ^
hint: values are parameters, and what earlier statements of the function declare
p.spmd:4:10: error: a is [4{x}8], and f declares [9]
    4 |   return a
      |          ^
hint: redistribute it before it is returned
p.spmd:2:21: note: the result is declared here
    2 | fn f(a: [4{x}8]) -> [9] {
      |                     ^~~
)";

// --- check

TEST(Check, says_nothing_of_what_is_right) {
  EXPECT_EQ(run_retile({"check", "-"}, std::string(right)), done(""));
  const ProcessResult result = run_retile({"check", "-v", "-"}, std::string(right));
  EXPECT_EQ(result, (ProcessResult{0, "", "standard input: 2 devices, 1 function, 1 statement\n"}));
}

TEST(Check, reports_all_mistakes_of_all_files) {
  const TemporaryFolder folder;
  folder.write("p.spmd", wrong);
  folder.write("q.spmd", right);
  const ProcessResult result = folder.run_retile({"check", "q.spmd", "p.spmd", "missing.spmd"});
  EXPECT_EQ(result, input_fault(wrong_said + "error: cannot read 'missing.spmd': No such file or directory\n"));
}

TEST(Check, zero_bytes_are_no_text) {
  EXPECT_EQ(run_retile({"check", "-"}, std::string("mesh\0", 5)),
            input_fault(R"(standard input:1:5: error: this is not text: it has a zero byte
    1 | mesh 
      |     ^
)"));
}

// --- fmt

TEST(Fmt, prints_canonical_form) {
  EXPECT_EQ(run_retile({"fmt", "-"}, std::string(untidy)), done(right));
  EXPECT_EQ(run_retile({"fmt", "-"}, std::string(right)), done(right));
}

TEST(Fmt, check_names_files_that_would_change) {
  const TemporaryFolder folder;
  folder.write("tidy.spmd", right);
  folder.write("untidy.spmd", untidy);
  EXPECT_EQ(folder.run_retile({"fmt", "--check", "tidy.spmd"}), done(""));
  EXPECT_EQ(folder.run_retile({"fmt", "--check", "tidy.spmd", "untidy.spmd"}), (ProcessResult{1, "untidy.spmd\n", ""}));
}

TEST(Fmt, in_place_rewrites_files) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  folder.write("untidy.spmd", untidy);
  const fs::path path = fs::path(folder.path()) / "untidy.spmd";
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write | fs::perms::owner_exec);
  EXPECT_EQ(folder.run_retile({"fmt", "-i", "untidy.spmd"}), done(""));
  EXPECT_EQ(folder.run_retile({"fmt", "untidy.spmd"}), done(right));
  EXPECT_EQ(folder.run_retile({"fmt", "--check", "untidy.spmd"}), done(""));
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write | fs::perms::owner_exec);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

// Whoever may write to the folder must not make fmt write elsewhere.
TEST(Fmt, in_place_follows_no_link_but_the_file_itself) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path path = folder.path();
  folder.write("real.spmd", untidy);
  folder.write("victim", "keep");
  fs::create_symlink("real.spmd", path / "p.spmd");
  for (const std::string name : {"p.spmd.retile-new", "real.spmd.retile-new"})
    fs::create_symlink("victim", path / name);
  EXPECT_EQ(folder.run_retile({"fmt", "-i", "p.spmd"}), done(""));
  EXPECT_TRUE(fs::is_symlink(path / "p.spmd"));
  EXPECT_EQ(folder.run_retile({"fmt", "real.spmd"}), done(right));
  EXPECT_EQ(fs::file_size(path / "victim"), 4U);
}

TEST(Fmt, in_place_keeps_hard_links_and_no_set_user_id_bit) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path path = folder.path();
  folder.write("p.spmd", untidy);
  fs::create_hard_link(path / "p.spmd", path / "other.spmd");
  EXPECT_EQ(folder.run_retile({"fmt", "-i", "p.spmd"}), done(""));
  EXPECT_TRUE(fs::equivalent(path / "p.spmd", path / "other.spmd"));
  EXPECT_EQ(folder.run_retile({"fmt", "--check", "other.spmd"}), done(""));
  EXPECT_EQ(std::distance(fs::directory_iterator(path), {}), 2);

  folder.write("q.spmd", untidy);
  fs::permissions(path / "q.spmd", fs::perms::set_uid, fs::perm_options::add);
  EXPECT_EQ(folder.run_retile({"fmt", "-i", "q.spmd"}), done(""));
  EXPECT_EQ(fs::status(path / "q.spmd").permissions() & fs::perms::set_uid, fs::perms::none);
}

TEST(Fmt, in_place_keeps_the_owner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files to others";
  const TemporaryFolder folder;
  folder.write("p.spmd", untidy);
  const std::string path = folder.path() + "/p.spmd";
  ASSERT_EQ(chown(path.c_str(), 12345, 23456), 0);
  EXPECT_EQ(folder.run_retile({"fmt", "-i", "p.spmd"}), done(""));
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12345U);
  EXPECT_EQ(status.st_gid, 23456U);
}

TEST(Fmt, in_place_leaves_the_file_where_the_new_one_cannot_be_written) {
  const TemporaryFolder folder;
  const std::string text = "// " + std::string(20000, 'x') + "\n" + untidy;
  folder.write("p.spmd", text);
  const ProcessResult result =
      run_process({"/bin/sh", "-c", "ulimit -f 8; exec $0 fmt -i p.spmd", RETILE_COMMAND}, {"", folder.path()});
  EXPECT_EQ(result, failure("retile: cannot write 'p.spmd': File too large\n"));
  EXPECT_EQ(folder.run_retile({"fmt", "--check", "p.spmd"}), (ProcessResult{1, "p.spmd\n", ""}));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Fmt, leaves_a_file_that_does_not_parse) {
  const TemporaryFolder folder;
  folder.write("p.spmd", unreadable);
  EXPECT_EQ(folder.run_retile({"fmt", "-i", "p.spmd"}),
            input_fault(R"(p.spmd:4:3: error: expected the operand of undistribute, found the keyword 'return'
    4 |   return a
      |   ^~~~~~
hint: keywords name nothing else
)"));
  EXPECT_EQ(folder.run_retile({"fmt", "--check", "p.spmd"}).output, "");
}

// --- lower

TEST(Lower, prints_a_program_that_lowers_to_itself) {
  const ProcessResult lowered = run_retile({"lower", "-"}, std::string(right));
  EXPECT_EQ(lowered, done(R"(mesh {x: 2}

fn f(a: [4{x}8]) -> [8] {
  // undistribute a from [4{x}8]: cost 8 (paper, optimal over all plans), peak 8 elements.
  // [4] to [8], cost 8; groups [0, 1]
  b = allgather(0; 2) a as [8]
  return b
}
)"));
  EXPECT_EQ(run_retile({"lower", "-"}, lowered.output), lowered);
  EXPECT_EQ(run_retile({"check", "-"}, lowered.output), done(""));
}

TEST(Lower, uses_the_planner_that_is_asked_for) {
  const std::string program =
      "mesh {x: 2, y: 2} fn f(a: [1{x,y}4, 4]) -> [4, 1{x,y}4] { b = redistribute a as [4, 1{x,y}4] return b }";
  EXPECT_NE(run_retile({"lower", "--planner", "direct", "-"}, program).output.find("exchange a as"), std::string::npos);
  EXPECT_NE(run_retile({"lower", "--planner", "gather-slice", "-"}, program).output.find("allgather(0; 4) a"),
            std::string::npos);
  EXPECT_NE(run_retile({"lower", "--cost", "volume", "-"}, program).output.find("(volume"), std::string::npos);
}

TEST(Lower, dumps_stages) {
  const std::string program = "mesh {x: 2} type t = [4{x}8] fn f(a: t) -> [8] { b = undistribute a return b }";
  EXPECT_EQ(run_retile({"lower", "--dump-after", "parse", "-"}, program),
            done("mesh {x: 2}\n\ntype t = [4{x}8]\n\nfn f(a: t) -> [8] {\n  b = undistribute a\n  return b\n}\n"));
  EXPECT_EQ(run_retile({"lower", "--dump-after", "check", "-"}, program),
            done("mesh {x: 2}\n\nfn f(a: [4{x}8]) -> [8] {\n  b = undistribute a as [8]\n  return b\n}\n"));
  EXPECT_EQ(run_retile({"lower", "--dump-after", "lower", "-"}, program), run_retile({"lower", "-"}, program));
}

TEST(Lower, summary_is_a_table) {
  const std::string program = R"(mesh {x: 4}
fn main(a: [2{x}8, 8]) -> [8, 8] {
  b = redistribute a as [8, 2{x}8]
  s = spmd_op b (t: [8, 2]) {
    return matmul t (transpose t [1, 0])
  } as [8, 8] sum {x}
  c = allreduce s as [8, 8]
  return c
}
)";
  EXPECT_EQ(run_retile({"lower", "--summary", "-"}, program),
            done(R"(line  statement               from            to          steps  cost  received bytes  peak bytes
3     main: b = redistribute  [2{x}8, 8]      [8, 2{x}8]      1    16              48         128
7     main: c = allreduce     [8, 8] sum {x}  [8, 8]          3   128             384         512
planner auto, costs in elements (paper); bytes are per device
the program's peak: 512 bytes at c of main, line 7
)"));
  const Json json = Json::parse(run_retile({"lower", "--json", "-"}, program).output);
  EXPECT_EQ(keys_of(json), (std::vector<std::string>{"format", "planner", "cost_model", "movements", "peak"}));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["movements"].size(), 2U);
  EXPECT_EQ(json["peak"]["bytes"], 512);
}

TEST(Lower, reports_all_mistakes) {
  const TemporaryFolder folder;
  folder.write("p.spmd", wrong);
  EXPECT_EQ(folder.run_retile({"lower", "p.spmd"}), input_fault(wrong_said));
}

TEST(Lower, large_meshes_take_no_time) {
  const TemporaryFolder folder;
  folder.write("p.spmd", R"(mesh {x: 32768, y: 32768}
fn f(a: [1{x}32768, 32768]) -> [32768, 1{x}32768] {
  b = redistribute a as [32768, 1{x}32768]
  s = spmd_op b (t: [32768, 1]) {
    return t
  } as [32768, 1{x}32768] sum {y}
  c = allreduce s as [32768, 1{x}32768]
  return c
}
)");
  for (const char* option : {"--summary", "--dump-after=lower"}) {
    EXPECT_EQ(run_retile_quickly({"lower", option, folder.path() + "/p.spmd"}).status, 0);
  }
}

}  // namespace
}  // namespace retile::test
