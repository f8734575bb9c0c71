// retile emit: what it takes, where it writes, and how it ends. The code itself is in tests/emission.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/command/retile.h"

namespace retile::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::vector<std::string> transpose{"--mesh", "x=4", "[2{x}8, 8]", "[8, 2{x}8]"};

std::string emit(const std::string& target, const std::vector<std::string>& arguments, const std::string& text = "") {
  const ProcessResult result = run_retile(with({"emit", "--as", target}, arguments), text);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  return result.output;
}

TEST(EmitCommand, takes_problems_and_plans_alike) {
  const std::string problem =
      R"({"mesh": {"x": 4}, "shape": [8, 8], "src": [["x"], []], "dst": [[], ["x"]], "id": ""})";
  for (const char* target : {"jax", "mpi", "stablehlo", "mlir"}) {
    const std::string code = emit(target, transpose);
    EXPECT_EQ(emit(target, {"--problems", "-"}, problem), code);
    const std::string plan = run_retile(with({"plan", "--json"}, transpose)).output;
    EXPECT_EQ(emit(target, {"-"}, plan), code);
  }
}

TEST(EmitCommand, takes_notations_and_planners) {
  EXPECT_THAT(emit("jax", {"--shape", "bf16[16,16,16]", "{devices=[2,1,4]<=[4,2]T(1,0)}", "{devices=[1,8,1]<=[8]}"}),
              HasSubstr("SOURCE = P(\"b\", None, \"a\")\nTARGET = P(None, (\"a\", \"b\"))\n"));
  EXPECT_THAT(emit("mlir", with(transpose, {"--planner", "xla"})), HasSubstr("mesh.all_to_all"));
  EXPECT_THAT(emit("mlir", with(transpose, {"--planner", "gather-slice"})), HasSubstr("mesh.all_slice"));
}

TEST(EmitCommand, takes_a_form_of_jax_code) {
  const std::string collectives = emit("jax", transpose);
  EXPECT_EQ(emit("jax", with(transpose, {"--form", "collectives"})), collectives);
  EXPECT_THAT(collectives, HasSubstr("tile = lax.all_to_all("));
  EXPECT_THAT(emit("jax", with(transpose, {"--form", "fast"})), HasSubstr("tile = lax.switch("));
  EXPECT_THAT(emit("jax", with(transpose, {"--form", "lean"})), HasSubstr("tile = lax.dynamic_update_slice("));
}

// A plan need not say its cost and its memory.
TEST(EmitCommand, prices_plans_that_do_not_say_their_cost) {
  Json plan = Json::parse(run_retile(with({"plan", "--json"}, transpose)).output);
  plan.erase("cost");
  plan.erase("memory");
  for (Json& step : plan["steps"]) step.erase("cost");
  EXPECT_THAT(emit("jax", {"-"}, plan.dump()), HasSubstr("Costs 16 elements per device (paper)"));
  EXPECT_THAT(emit("mpi", {"-", "--dtype", "c128"}, plan.dump()), HasSubstr("using Element = std::complex<double>;"));
}

TEST(EmitCommand, knows_the_elements_that_a_plan_combines) {
  const std::string plan =
      run_retile({"plan", "--json", "--mesh", "x=2", "[8] sum {x}", "[4{x}8]", "--dtype", "f64"}).output;
  EXPECT_THAT(emit("mpi", {"-"}, plan), HasSubstr("using Element = double;"));
  const ProcessResult other = run_retile({"emit", "--as", "mpi", "-", "--dtype", "f32"}, plan);
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.errors, StartsWith("standard input:1:1: error: the plan combines elements of f64, not of f32\n"));
  EXPECT_EQ(run_retile({"emit", "--as", "mpi", "-", "--planner", "paper"}, plan),
            usage_fault("retile: a file of plans cannot be combined with --planner, --machine, --memory-limit, "
                        "--no-exchange or --relabel\n"
                        "Try 'retile emit --help'.\n"));
}

TEST(EmitCommand, writes_a_file) {
  const TemporaryFolder folder;
  EXPECT_EQ(folder.run_retile(with({"emit", "--as", "jax", "--out", "redistribute.py"}, transpose)), done(""));
  std::ifstream file(folder.path() + "/redistribute.py");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), emit("jax", transpose));
  EXPECT_EQ(folder.run_retile(with({"emit", "--as", "jax", "--out", "no/such"}, transpose)),
            failure("retile: cannot write 'no/such': No such file or directory\n"));
}

TEST(EmitCommandFault, says_what_is_wrong) {
  EXPECT_EQ(run_retile(with({"emit"}, transpose)),
            usage_fault("retile: --as is required\nTry 'retile emit --help'.\n"));
  EXPECT_EQ(run_retile(with({"emit", "--as", "jxa"}, transpose)),
            usage_fault("retile: --as: 'jxa' is unknown; did you mean jax? use one of: jax, mpi, stablehlo, mlir\n"
                        "Try 'retile emit --help'.\n"));
  EXPECT_EQ(run_retile(with({"emit", "--as", "mpi", "--form", "lean"}, transpose)),
            usage_fault("retile: --form goes with --as jax\nTry 'retile emit --help'.\n"));
  EXPECT_EQ(run_retile(with({"emit", "--as", "jax", "--notation", "xla"}, transpose)),
            usage_fault("retile: --notation goes with retile plan\nTry 'retile emit --help'.\n"));
  EXPECT_EQ(run_retile({"emit", "--as", "jax", "--mesh", "x=4", "[2{x}8] balanced", "[8] boxes {[0:8]; [0:8]; ; }"}),
            input_fault("error: JAX cannot say tiles that are not alike on all devices\n"
                        "hint: --as mpi moves boxes of any size\n"));
  const std::string problem = R"({"mesh": {"x": 2}, "shape": [8], "src": [["x"]], "dst": [[]]})";
  EXPECT_EQ(run_retile({"emit", "--as", "jax", "--problems", "-"}, problem + "\n" + problem + "\n"),
            input_fault("standard input:2:1: error: there are 2 problems in this file\n    2 | " + problem +
                        "\n      | ^\nhint: give one at a time\n"));
}

TEST(EmitCommandFault, wrong_plans_are_not_written) {
  Json plan = Json::parse(run_retile(with({"plan", "--json"}, transpose)).output);
  plan["steps"][0]["groups"] = {{0, 1}, {2, 3}};
  const ProcessResult result = run_retile({"emit", "--as", "jax", "-"}, plan.dump());
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "");
  EXPECT_THAT(result.errors, StartsWith("standard input:1: error: "));
}

}  // namespace
}  // namespace retile::test
