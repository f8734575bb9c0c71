#include "retile/language/checker.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>

#include "tests/language/programs.h"

namespace retile::test {
namespace {

using namespace language;

TEST(Rules, programs_that_keep_them_are_right) {
  const std::vector<Rule> rules = read_rules();
  EXPECT_GE(rules.size(), 60U);
  for (const Rule& rule : rules) EXPECT_EQ(faults_of(rule.right), "") << rule.name;
}

TEST(Rules, programs_that_break_them_are_told) {
  for (const Rule& rule : read_rules()) EXPECT_EQ(faults_of(rule.wrong), rule.said) << rule.name;
}

TEST(Listings, check_as_printed_in_the_paper) {
  for (const char* name : {"simple", "matmul", "chain"}) {
    EXPECT_EQ(faults_of(read_source(std::string("examples/paper/") + name + ".spmd")), "") << name;
  }
}

// --- What the checker makes.

TEST(Program, callees_come_before_callers) {
  const Program program = checked(R"(mesh {x: 2}
fn main(a: [8]) -> [8] { b = f(a) c = g(b) return c }
fn f(a: [8]) -> [8] { b = g(a) return b }
fn g(a: [8]) -> [8] { return a }
)")
                              .program;
  ASSERT_EQ(program.functions.size(), 3U);
  EXPECT_EQ(program.functions[static_cast<std::size_t>(program.main)].name, "main");
  for (std::size_t i = 0; i < program.functions.size(); ++i) {
    for (const Statement& statement : program.functions[i].statements) {
      const auto& call = std::get<Call>(statement.operation);
      EXPECT_LT(call.function, static_cast<int>(i));
    }
  }
  const auto& first = std::get<Call>(program.functions[2].statements[0].operation);
  EXPECT_EQ(program.functions[static_cast<std::size_t>(first.function)].name, "f");
}

TEST(Program, alone_a_function_needs_no_main) {
  EXPECT_EQ(checked("mesh {x: 2} fn f(a: [8]) -> [8] { return a }").program.main, 0);
}

const LocalFunction& only_body(const Program& program) {
  return std::get<SpmdOp>(program.functions.front().statements.front().operation).body;
}

std::vector<LocalOp> ops_of(const LocalFunction& function) {
  std::vector<LocalOp> ops;
  for (const LocalInstruction& instruction : function.instructions) ops.push_back(instruction.op);
  return ops;
}

CheckedProgram with_body(const std::string& body, const std::string& type) {
  return checked("mesh {x: 2, y: 3}\nfn f(a: [4{x}8, 6]) -> " + type + " {\n  b = spmd_op a (t: [4, 6]) {\n" + body +
                 "\n  } as " + type + "\n  return b\n}\n");
}

TEST(Program, numbers_take_the_other_operands_type) {
  const CheckedProgram program = with_body("return 2 * t - 1 / 4", "[4{x}8, 6]");
  const LocalFunction& body = only_body(program.program);
  EXPECT_EQ(ops_of(body), (std::vector{LocalOp::parameter, LocalOp::literal, LocalOp::multiply, LocalOp::literal,
                                       LocalOp::subtract}));
  EXPECT_EQ(body.instructions[1].number, 2);
  EXPECT_EQ(body.instructions[1].type, (LocalType{ElementType::f32, {4, 6}}));
  EXPECT_EQ(body.instructions[3].number, 0.25);
  EXPECT_EQ(body.results, std::vector<int>{4});
}

TEST(Program, scalars_are_broadcast) {
  const CheckedProgram program = with_body("return t / reduce_sum t [0, 1]", "[4{x}8, 6]");
  const LocalFunction& body = only_body(program.program);
  EXPECT_EQ(ops_of(body), (std::vector{LocalOp::parameter, LocalOp::reduce_sum, LocalOp::broadcast, LocalOp::divide}));
  EXPECT_EQ(body.instructions[2].operands, std::vector<int>{1});
  EXPECT_EQ(body.instructions[2].type, body.instructions[3].type);
}

TEST(Program, prefix_binds_tighter_than_infix) {
  const CheckedProgram program = with_body("return -exp t + t * t", "[4{x}8, 6]");
  EXPECT_EQ(ops_of(only_body(program.program)),
            (std::vector{LocalOp::parameter, LocalOp::exp, LocalOp::negate, LocalOp::multiply, LocalOp::add}));
}

TEST(Program, constants_have_the_element_type_of_their_ascription) {
  const CheckedProgram program = checked(R"(mesh {x: 2}
fn f() -> i32[2, 3] {
  a, b, c = spmd_op () {
    u = iota 1 [2, 3] : i32[2, 3]
    return u, constant 3 [2], 1
  } as i32[2, 3], f64[2], i32[]
  return a
}
)");
  const LocalFunction& body = only_body(program.program);
  EXPECT_EQ(body.instructions[0].type, (LocalType{ElementType::i32, {2, 3}}));
  EXPECT_EQ(body.instructions[0].numbers, std::vector<std::int64_t>{1});
  EXPECT_EQ(body.instructions[1].type, (LocalType{ElementType::f64, {2}}));
  EXPECT_EQ(body.instructions[2].type, (LocalType{ElementType::i32, {}}));
}

TEST(Program, instructions_carry_their_numbers) {
  const CheckedProgram program = with_body(R"(c = coordinate y
s = slice t [0, 2] [3, 6]
r = reduce_max t [1, 0]
p = transpose s [1, 0]
q = concat 1 s s
return c)",
                                           "i32[]");
  const std::vector<LocalInstruction>& instructions = only_body(program.program).instructions;
  EXPECT_EQ(instructions[1].index, 1);
  EXPECT_EQ(instructions[2].numbers, (std::vector<std::int64_t>{0, 2, 3, 6}));
  EXPECT_EQ(instructions[3].numbers, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(instructions[4].numbers, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(instructions[5].numbers, std::vector<std::int64_t>{1});
  EXPECT_EQ(instructions[5].operands, (std::vector<int>{2, 2}));
}

TEST(Program, collectives_are_steps_without_lists) {
  const Program program =
      checked("mesh {x: 2} fn f(a: [4{x}8, 6]) -> [8, 3{x}6] { b = alltoall(0 -> 1: 2) a as [8, 3{x}6] return b }")
          .program;
  const Step& step = std::get<StepStatement>(program.functions[0].statements[0].operation).step;
  EXPECT_EQ(step.operation, StepOperation(AllToAllStep{{{0, 1, 2}}, {}}));
  EXPECT_EQ(step.local_out(), (Shape{8, 3}));
}

TEST(Program, tables_that_a_type_describes_are_types) {
  const Program program = checked("mesh {x: 2} fn f(a: [2 of 4] at [0] [2]) -> [2{x}4] { return a }").program;
  EXPECT_NE(program.functions[0].values[0].type.placement.type(), nullptr);
}

TEST(ProgramError, carries_the_first_fault_and_all) {
  try {
    checked("mesh {x: 2} fn f(a: [8]) -> [8] { b = g(a) return c }");
    FAIL();
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.diagnostics().size(), 2U);
    EXPECT_STREQ(error.what(), "there is no function g");
  }
}

}  // namespace
}  // namespace retile::test
