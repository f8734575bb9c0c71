#include "retile/language/lowering.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "retile/language/passes.h"
#include "retile/language/printer.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/language/programs.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

using namespace language;

SyntaxTree lowered(const CheckedProgram& program, const PlanOptions& options = {}) {
  return tree_after(Pass::lower, program, options);
}

std::string lowered_text(const std::string& text, const PlanOptions& options = {}) {
  return to_string(lowered(checked(text), options));
}

std::string program_of(const Problem& problem) {
  return "mesh " + to_string(require_typed(problem).mesh()) + "\n\nfn main(a: " + to_string(problem.source()) +
         ") -> " + to_string(problem.target()) + " {\n  b = redistribute a as " + to_string(problem.target()) +
         "\n  return b\n}\n";
}

// Every step does what its kind allows, and the last one ends where the function says.
void expect_right_steps(const Program& program) {
  for (const Function& function : program.functions) {
    for (const Statement& statement : function.statements) {
      if (std::holds_alternative<Redistribute>(statement.operation)) {
        const auto is_type = [](const Value& value) { return !value.type.layout && value.type.partial.empty(); };
        EXPECT_FALSE(is_type(operand_of(function, statement)) && is_type(result_of(function, statement)));
      }
      const auto* step = std::get_if<StepStatement>(&statement.operation);
      if (step == nullptr) continue;
      const Movement movement{program.mesh, operand_of(function, statement).type.placement, {step->step}};
      EXPECT_EQ(find_faults(with_lists(movement)), std::vector<std::string>{});
      EXPECT_EQ(step->step.after == result_of(function, statement).type.placement, true);
    }
  }
}

void expect_right_lowering(const CheckedProgram& program, const PlanOptions& options) {
  const SyntaxTree tree = lowered(program, options);
  const CheckResult in_place = check_program(tree);  // with the places of the source
  ASSERT_TRUE(in_place.program.has_value());
  const std::string text = to_string(tree);
  const CheckedProgram again = checked(text);
  EXPECT_EQ(again.tree == tree, true) << text;
  expect_right_steps(again.program);
  EXPECT_EQ(to_string(lowered(again, options)), text);
}

// --- Against the verifier.

TEST(Lowering, steps_of_the_problems_of_the_file_are_right) {
  const std::vector<Problem> problems = file_problems();
  for (const Planning& planning : all_plannings()) {
    const std::size_t stride = is_sweep() ? 1 : 10;
    for (std::size_t i = 0; i < problems.size(); i += stride) {
      SCOPED_TRACE(planning.name + ": " + describe(problems[i]));
      expect_right_lowering(checked(program_of(problems[i])), planning.options);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Lowering, mixed_meshes_have_placements_without_types) {
  RandomProblems random(3);
  int tables = 0;
  for (const char* text : {"a=2,b=3,c=2", "a=6,b=4", "a=12", "a=2,b=2,c=2"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 60; ++i) {
      const Problem problem = random.problem(mesh, random.shape(3, {4, 6, 12, 24}));
      const CheckedProgram program = checked(program_of(problem));
      for (const Planning& planning : all_plannings()) {
        SCOPED_TRACE(planning.name + ": " + describe(problem));
        expect_right_lowering(program, planning.options);
        tables += to_string(lowered(program, planning.options)).find(" of ") != std::string::npos ? 1 : 0;
      }
    }
  }
  EXPECT_GT(tables, 0);
}

TEST(Lowering, right_programs_lower) {
  for (const NamedProgram& program : right_programs()) {
    SCOPED_TRACE(program.name);
    const CheckedProgram source = checked(program.text);
    if (source.program.mesh.device_count() > 4096) continue;  // listed device by device here
    expect_right_lowering(source, {});
  }
}

// --- What it looks like.

TEST(Lowering, comments_say_what_steps_do) {
  PlanOptions options;
  options.planner = PlannerKind::gather_slice;
  EXPECT_EQ(lowered_text(R"(mesh {x: 2, y: 3}
fn main(a: [4{x}8, 6]) -> [8, 2{y}6] {
  // Rows to columns.
  b = redistribute a as [8, 2{y}6]  // done
  return b
}
)",
                         options),
            R"(mesh {x: 2, y: 3}

fn main(a: [4{x}8, 6]) -> [8, 2{y}6] {
  // Rows to columns.
  // redistribute a from [4{x}8, 6]: cost 48 (paper), peak 48 elements.
  // [4, 6] to [8, 6], cost 48; groups [0, 3] [1, 4] [2, 5]
  b_1 = allgather(0; 2) a as [8, 6]
  // [8, 6] to [8, 2], cost 0
  b = dynslice(1; 3) b_1 as [8, 2{y}6]  // done
  return b
}
)");
}

TEST(Lowering, long_lists_of_devices_are_cut_short) {
  const std::string text = lowered_text(
      "mesh {x: 32, y: 32} fn f(a: [1{x}32, 32]) -> [32, 1{x}32] { b = redistribute a as [32, 1{x}32] return b }");
  EXPECT_NE(text.find("groups [0, 32, 64,"), std::string::npos) << text;
  EXPECT_NE(text.find("992] [1, 33,"), std::string::npos) << text;
  EXPECT_NE(text.find("993] and 30 more\n"), std::string::npos) << text;
  const std::string one = lowered_text(
      "mesh {x: 1024} fn f(a: [1{x}1024, 1024]) -> [1024, 1{x}1024] { b = redistribute a as [1024, 1{x}1024] return b "
      "}");
  EXPECT_NE(one.find("; groups 1 of 1024 devices each\n"), std::string::npos) << one;
}

TEST(Lowering, large_meshes_are_not_listed) {
  const std::string text = lowered_text(
      "mesh {x: 32768, y: 32768} fn f(a: [1{x}32768, 32768]) -> [32768, 1{x}32768] "
      "{ b = redistribute a as [32768, 1{x}32768] return b }");
  EXPECT_NE(text.find("; among 1073741824 devices\n"), std::string::npos) << text;
}

TEST(Lowering, what_moves_nothing_gives_its_name_away) {
  EXPECT_EQ(lowered_text(R"(mesh {x: 2, one: 1}
type t = [4{x}8]
fn main(a: t) -> t, t, [4{x,one}8] {
  // Does nothing.
  b = redistribute a as t  // really

  c = redistribute b as [4{x,one}8]
  d = g(b, c)
  e = spmd_op b c (u: [4], v: [4]) {
    b = u + v
    return b
  } as t
  return c, d, b
}
fn g(a: t, b: t) -> t {
  return b
}
)"),
            R"(mesh {x: 2, one: 1}

type t = [4{x}8]

fn main(a: t) -> t, t, [4{x,one}8] {
  // Does nothing.
  // redistribute a: nothing to do, b is a.
  // really

  // redistribute a: nothing to do, c is a.
  d = g(a, a)
  e = spmd_op a a (u: [4], v: [4]) {
    b = u + v
    return b
  } as t
  return a, d, a
}

fn g(a: t, b: t) -> t {
  return b
}
)");
}

TEST(Lowering, new_names_are_new) {
  PlanOptions options;
  options.planner = PlannerKind::gather_slice;
  const std::string text = lowered_text(R"(mesh {x: 2}
fn main(a: [4{x}8, 6], b_1: [8]) -> [8, 3{x}6] {
  b = redistribute a as [8, 3{x}6]
  b_1_ = undistribute b_1
  return b
}
)",
                                        options);
  EXPECT_NE(text.find("b_1__ = allgather"), std::string::npos) << text;
}

// As everywhere: one exchange where it costs less than a wide plan.
TEST(Lowering, takes_the_cheapest_plan) {
  const std::string text = lowered_text(
      "mesh {a: 4, b: 2}\nfn f(x: [1{a,b}8, 2]) -> [8, 1{b}2] {\n  y = redistribute x as [8, 1{b}2]\n  return y\n}\n");
  EXPECT_NE(text.find("cost 8 (paper, optimal over all plans)"), std::string::npos) << text;
  EXPECT_NE(text.find("y = exchange x as [8, 1{b}2]"), std::string::npos) << text;
}

TEST(Lowering, says_where_there_is_no_plan) {
  const CheckedProgram program = checked(
      "mesh {x: 3, y: 1048576}\nfn f(a: [1{x}3, 1048576]) -> [3, 1{y}1048576] {\n"
      "  b = redistribute a as [3, 1{y}1048576]\n  return b\n}\n");
  PlanOptions options;
  options.planner = PlannerKind::wide;
  try {
    lowered(program, options);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(to_string(error.diagnostic()),
              "program:3:3: error: 3145728 devices are too many for a mesh whose size has several prime factors\n"
              "    3 |   b = redistribute a as [3, 1{y}1048576]\n"
              "      |   ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n"
              "hint: such meshes are planned up to 1048576 devices; gather-slice and direct plan any\n");
  }
}

// --- Passes.

TEST(Passes, check_spells_out_types) {
  EXPECT_EQ(to_string(tree_after(Pass::check, checked(R"(mesh {x: 2}
type t = [4{x}8]
fn main(a: t) -> [8], t {
  b = undistribute a
  c = spmd_op a (u: [4]) { return u } as t
  return b, c
}
)"),
                                 {})),
            R"(mesh {x: 2}

fn main(a: [4{x}8]) -> [8], [4{x}8] {
  b = undistribute a as [8]
  c = spmd_op a (u: [4]) {
    return u
  } as [4{x}8]
  return b, c
}
)");
}

TEST(Passes, are_found_by_name) {
  EXPECT_EQ(pass_names, "parse, check, lower");
  EXPECT_EQ(find_pass("parse"), Pass::parse);
  EXPECT_EQ(find_pass("check"), Pass::check);
  EXPECT_EQ(find_pass("lower"), Pass::lower);
  EXPECT_EQ(find_pass("optimize"), std::nullopt);
}

TEST(Passes, parse_is_canonical_form) {
  const CheckedProgram program = checked(read_source("examples/paper/chain.spmd"));
  EXPECT_EQ(to_string(tree_after(Pass::parse, program, {})), to_string(program.tree));
}

}  // namespace
}  // namespace retile::test
