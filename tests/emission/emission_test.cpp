// Code as it is read: examples word for word, and what targets cannot say. Their own compilers see it in tests/mpi and
// tests/python, and here for MLIR.
#include "retile/emission/emission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/diagnostic_of.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"
#include "tests/support/process.h"

namespace retile::emission {
namespace {

using test::diagnostic_of;
using test::problem_of;
using test::ProblemText;
using ::testing::HasSubstr;
using ::testing::Not;

std::string emit_plan(const Problem& problem, Target target, PlannerKind planner = PlannerKind::automatic) {
  PlanOptions options;
  options.planner = planner;
  return emit(make_plan(problem, options), problem.element_type(), target);
}

std::string golden(const std::string& name) {
  std::ifstream file(std::string(RETILE_SOURCE_DIR) + "/tests/emission/golden/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every kind of step between tiles: a slice, alltoalls, a gather; and an exchange.
const Problem oversharding = problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
const Problem swapped = problem_of("x=2,y=4", "[1{y,x}8, 8]", "[2{y}8, 4{x}8]");

TEST(Emission, writes_what_a_person_would) {
  EXPECT_EQ(emit_plan(oversharding, Target::jax, PlannerKind::paper), golden("oversharding.py"));
  EXPECT_EQ(emit_plan(oversharding, Target::mpi, PlannerKind::paper), golden("oversharding.cpp.txt"));
  EXPECT_EQ(emit_plan(oversharding, Target::stablehlo, PlannerKind::paper), golden("oversharding.stablehlo.mlir"));
  EXPECT_EQ(emit_plan(oversharding, Target::mlir, PlannerKind::paper), golden("oversharding.mlir"));
  EXPECT_EQ(emit_plan(swapped, Target::jax), golden("exchange.py"));
}

TEST(Emission, says_where_there_is_nothing_to_move) {
  const Problem same = problem_of("x=4", "[2{x}8]", "[2{x}8]");
  EXPECT_THAT(emit_plan(same, Target::jax), HasSubstr("tile of (2,).\"\"\"\n    return tile\n"));
  EXPECT_THAT(emit_plan(same, Target::mpi), HasSubstr("kept(tiles_0, tiles_0, rank)"));
  EXPECT_THAT(emit_plan(same, Target::mlir), HasSubstr("{\n  return %tile : tensor<2xf32>\n}\n"));
}

// Where a plan is cut along parts of axes, the mesh has axes for them.
TEST(Emission, splits_axes_that_an_end_is_cut_along_in_parts) {
  const std::string code = emit_plan(problem_of("x=8", "[2{x:(1)4}8, 4]", "[8, 2{x:(4)2}4]"), Target::jax);
  EXPECT_THAT(code, HasSubstr("AXES = (\"x_0\", \"x_1\")"));
  EXPECT_THAT(code, HasSubstr("SOURCE = P(\"x_0\")\nTARGET = P(None, \"x_1\")\n"));
}

TEST(Emission, pads_tiles_of_a_grid_for_compilers_of_tensors) {
  const Problem uneven = problem_of("x=4", "[3{x}11, 8]", "[11, 2{x}8]");
  EXPECT_THAT(emit_plan(uneven, Target::jax), HasSubstr("SHAPE = (12, 8)  # padded: the array has (11, 8)\n"));
  EXPECT_THAT(emit_plan(uneven, Target::stablehlo), HasSubstr("// tiles are padded: they make up an array of [12, 8]"));
}

// A program that is run has the smaller unit, one that is imported the array's own.
TEST(Emission, checks_large_arrays_on_smaller_ones_that_are_cut_alike) {
  const Problem large = problem_of("x=2,y=4", "[1024{y,x}8192, 8192]", "[2048{y}8192, 4096{x}8192]");
  const std::string code = emit_plan(large, Target::jax);
  EXPECT_THAT(
      code,
      HasSubstr("\nUNIT = 4 if __name__ == \"__main__\" else 4096  # run as a program, it checks a smaller array\n"));
  EXPECT_THAT(code, HasSubstr("\nSHAPE = (8192, 2 * UNIT)\n"));
  EXPECT_THAT(code, HasSubstr("devices, on an array of {SHAPE}\")"));
  const Problem small = problem_of("x=2,y=4", "[1024{y,x}8192, 1024]", "[2048{y}8192, 512{x}1024]");
  EXPECT_THAT(emit_plan(small, Target::jax), Not(HasSubstr("UNIT")));
  const Problem uneven = problem_of("x=8", "[1025{x}8193, 8192]", "[8193, 1024{x}8192]");
  EXPECT_THAT(emit_plan(uneven, Target::jax), Not(HasSubstr("UNIT")));
}

// Bounds of tiles by their numbers, whatever rule cuts them; one that bends too often is a table of as many numbers as
// the dimension has tiles.
TEST(EmittedMpi, has_arithmetic_for_uneven_tiles) {
  const auto tiles = [](const char* layout) {
    const std::string code = emit_plan(problem_of("x=4,y=2", layout, "[5{y}10, 8]"), Target::mpi);
    const std::size_t begin = code.find("tiles_0(int rank) {\n") + 20;
    return code.substr(begin, code.find("}\n\n", begin) - begin);
  };
  EXPECT_EQ(tiles("[3{x}10, 8]"),
            "  const int tile_0 = rank / 2;\n"
            "  return {packed({{tile_0 * 3, 0}, {tile_0 + std::min(tile_0, 2) * 2 + 3, 8}})};\n");
  EXPECT_EQ(tiles("[3{x}10, 8] balanced"),
            "  const int tile_0 = rank / 2;\n"
            "  return {packed({{tile_0 * 2 + std::min(tile_0, 2), 0}, {tile_0 * 2 + std::min(tile_0, 1) + 3, 8}})};\n");
  EXPECT_EQ(tiles("[3{x}10, 8] last"),
            "  const int tile_0 = rank / 2;\n"
            "  return {packed({{tile_0 * 3 - std::min(tile_0, 2), 0}, {tile_0 * 3 - std::min(tile_0, 1) + 2, 8}})};\n");
  EXPECT_EQ(tiles("[(4,1,3,2){x}10, 8]"),
            "  const int tile_0 = rank / 2;\n"
            "  return {packed({{tile_0 * 3 + std::min(tile_0, 1) * 3 - std::min(tile_0, 2) * 2, 0},\n"
            "                  {tile_0 * 2 - std::min(tile_0, 1) * 2 + std::min(tile_0, 2) + 4, 8}})};\n");
}

// Who holds what and who sends to whom is arithmetic: there is no table.
TEST(EmittedMpi, does_not_grow_with_the_number_of_ranks) {
  const auto expect_short = [](const char* axes, const char* source, const char* target) {
    const std::string code = emit_plan(problem_of(axes, source, target), Target::mpi, PlannerKind::direct);
    EXPECT_LT(std::count(code.begin(), code.end(), '\n'), 420) << source << " to " << target;
    EXPECT_THAT(code, Not(HasSubstr("[rank_count] = {"))) << source << " to " << target;
    EXPECT_THAT(code, Not(HasSubstr("transfers = {"))) << source << " to " << target;
    return code;
  };
  const char* grid = "x=32,y=32";
  EXPECT_THAT(expect_short(grid, "[32{x}1001, 16{y}499] balanced", "[32{y}1001, 16{x}499] balanced"),
              HasSubstr("asked(tiles_0, tiles_1, rank)"));
  EXPECT_THAT(expect_short(grid, "[32{x}1024, 512]", "[1024, 16{x}512]"),
              HasSubstr("asked_in_turn(tiles_0, tiles_1, rank)"))
      << "each tile has 32 holders";
  EXPECT_THAT(expect_short(grid, "[32{x}1001, 1023] balanced", "[1001, 32{x}1023] balanced"),
              HasSubstr("shared(tiles_0, tiles_1, rank)"))
      << "likewise, and tiles are of two sizes";
  expect_short("x=1024", "[98{x}100003, 499] balanced", "[100003, 1{x}499] balanced");  // fewer columns than ranks
  expect_short("x=1024", "[1{x}499, 8] last", "[499, 1{x}8]");
  expect_short(grid, "[32{x}1001, 32{y}1023] nested", "[1001, 1{y,x}1023] balanced");
  EXPECT_THAT(expect_short(grid, "[10000 cyclic 32{x}, 10000 cyclic 48{y}]", "[313{x}10000, 313{y}10000]"),
              HasSubstr("in_turn(10000, 48, 32, 0, tile_1)"));
  expect_short(grid, "[1000 cyclic 7{x} from 5, 1000]", "[1000 cyclic 9{y}, 1000 cyclic 8{x}] order [1, 0]");
  expect_short("x=1024", "[32768 cyclic 16{x}, 8000]", "[32768, 8000 cyclic 64{x}]");  // fewer blocks than ranks
  expect_short(grid, "[32{x}1001 halo 1, 32{y}1024 halo 1]", "[32{x}1001 halo 1, 32{y}1024 halo 1]");
  expect_short(grid, "[32{x}1024, 32{y}1024]", "[32{x}1024 halo 1 wrap, 32{y}1024 halo (1,2) wrap]");
}

// Lists stay where there is no rule.
TEST(EmittedMpi, lists_what_is_irregular) {
  const Problem boxes = problem_of({"x=4", "[2{x}5]", "x=4", "[5] boxes {[0:2] [4:5]; ; [2:4]; }"});
  const std::string code = emit_plan(boxes, Target::mpi);
  EXPECT_THAT(code, HasSubstr("switch (rank) {"));
  EXPECT_THAT(code, HasSubstr("transfers = {"));
  EXPECT_THAT(code, Not(HasSubstr("source_strides"))) << "a rank's several boxes lie one after the other";
}

TEST(EmissionFault, names_what_a_target_cannot_say_and_one_that_can) {
  const Problem boxes = problem_of({"x=2", "[5{x}9] balanced", "x=2", "[9] boxes {[0:2] [4:9]; [2:4]}"});
  const auto refusal = [](const Problem& problem, Target target) {
    return diagnostic_of([&] { emit_plan(problem, target); });
  };
  const std::string alike =
      " cannot say tiles that are not alike on all devices\nhint: --as mpi moves boxes of any size\n";
  EXPECT_EQ(refusal(boxes, Target::jax), "error: JAX" + alike);
  EXPECT_EQ(refusal(boxes, Target::stablehlo), "error: StableHLO" + alike);
  EXPECT_EQ(refusal(boxes, Target::mlir), "error: MLIR" + alike);
  const Problem order = problem_of({"x=4", "[2{x}8, 4] on [0, 1, 3, 2]", "x=4", "[8, 1{x}4]"});
  EXPECT_EQ(refusal(order, Target::jax),
            "error: JAX cannot say ends that lie along no axes of one mesh\n"
            "hint: --as stablehlo and --as mpi need no axes\n");
  EXPECT_THAT(emit_plan(order, Target::stablehlo), HasSubstr("stablehlo."));
  const Problem halves("", parse_layout("[8, 4] sum {x}", Mesh({{"x", 2}})),
                       parse_layout("[4{x}8, 4]", Mesh({{"x", 2}})), ElementType::bf16);
  EXPECT_EQ(refusal(halves, Target::mpi),
            "error: MPI cannot say sums of 16-bit numbers\n"
            "hint: C++ has no type for them; --as jax and --as stablehlo add them\n");
  EXPECT_THAT(emit_plan(halves, Target::stablehlo), HasSubstr("stablehlo.convert"));
  const Problem many = problem_of("x=8192", "[1{x}8192, 8192]", "[8192, 1{x}8192]");
  EXPECT_EQ(refusal(many, Target::mpi),
            "error: 8192 devices are too many to be listed in code\nhint: at most 4096 are\n");
}

// Any two layouts, whether a target can say the plan or not.
TEST(Emission, writes_or_refuses_every_plan) {
  test::RandomProblems random(3);
  int written[4] = {};
  for (int i = 0; i < 300; ++i) {
    const Problem problem = test::any_problem(random);
    for (const Target target : {Target::jax, Target::mpi, Target::stablehlo, Target::mlir}) {
      try {
        EXPECT_NE(emit_plan(problem, target), "");
        ++written[static_cast<std::size_t>(target)];
      } catch (const InputError& error) {
        EXPECT_THAT(error.what(), HasSubstr(" cannot say ")) << test::describe(problem);
      }
    }
  }
  EXPECT_EQ(written[static_cast<std::size_t>(Target::mpi)], 300);
  for (const int count : written) EXPECT_GT(count, 30);
}

// --- MLIR's own reader and checker.

bool has_mlir() { return std::system("command -v mlir-opt-19 >/dev/null") == 0; }

TEST(EmittedMlir, is_accepted_by_mlir) {
  if (!has_mlir()) GTEST_SKIP() << "there is no mlir-opt-19";
  test::ProcessInput input;
  int modules = 0;
  const auto add = [&](const Problem& problem, PlannerKind planner) {
    input.text += emit_plan(problem, Target::mlir, planner) + "// -----\n";
    ++modules;
  };
  const std::vector<Problem> problems = test::file_problems();
  for (std::size_t i = 0; i < problems.size(); i += 10) {
    for (const PlannerKind planner : {PlannerKind::wide, PlannerKind::paper, PlannerKind::direct}) {
      add(problems[i], planner);
    }
  }
  const Problem uneven = problem_of("x=4", "[3{x}11, 8]", "[11, 2{x}8]");
  for (const char* dtype : {"f32", "bool", "u64", "f8e4m3fn", "f8e5m2", "c128"}) {
    add({"", uneven.source(), uneven.target(), *find_element_type(dtype)}, PlannerKind::wide);
  }
  for (const char* dtype : {"f32", "bf16", "i32", "u8"}) {
    for (const char* reduction : {"sum", "max", "min"}) {
      const std::string source = std::string("[8, 16] ") + reduction + " {x}";
      add({"", parse_layout(source, Mesh({{"x", 2}, {"y", 2}})),
           parse_layout("[4{x}8, 8{y}16]", Mesh({{"x", 2}, {"y", 2}})), *find_element_type(dtype)},
          PlannerKind::wide);
    }
  }
  const test::ProcessResult result =
      test::run_process({"/usr/bin/env", "mlir-opt-19", "--split-input-file", "-"}, input);
  EXPECT_EQ(result.status, 0) << result.errors.substr(0, 2000);
  EXPECT_GT(modules, 150);
}

// Groups are axes of its meshes; where they are not, processes send to each other.
TEST(EmittedMlir, has_messages_for_groups_off_the_axes) {
  const Problem problem = problem_of("x=4,y=6", "[3{x}12, 2{y}12]", "[2{y}12, 3{x}12]");
  const std::string code = emit_plan(problem, Target::mlir, PlannerKind::paper);
  EXPECT_THAT(code, HasSubstr("mesh.send"));
  EXPECT_THAT(code, HasSubstr("mesh.recv"));
}

}  // namespace
}  // namespace retile::emission
