// What plans become in each form. What the operations do is checked with NumPy and JAX in tests/python.
#include "retile/tensors/lowering.h"

#include <gtest/gtest.h>

#include "retile/base/arithmetic.h"
#include "tests/support/layouts.h"
#include "tests/support/problems.h"

namespace retile::tensors {
namespace {

using test::problem_of;

TensorProgram lower_problem(const Problem& problem, const LoweringOptions& options,
                            PlannerKind planner = PlannerKind::wide) {
  PlanOptions plan_options;
  plan_options.planner = planner;
  return lower(make_plan(problem, plan_options), 4, options);
}

std::string collectives(const Problem& problem, ProgramForm form) {
  return collectives_text(lower_problem(problem, options_for(form)));
}

const Problem swapped = problem_of("x=2,y=4", "[1{y,x}8, 8]", "[2{y}8, 4{x}8]");    // an exchange
const Problem among_four = problem_of("x=2,y=4", "[8, 2{y}8]", "[2{y}8, 8]");       // an alltoall
const Problem among_eight = problem_of("x=2,y=4", "[8, 1{y,x}8]", "[1{y,x}8, 8]");  // likewise
const Problem inner_gather = problem_of("x=2,y=4", "[8, 2{y}8]", "[8, 8]");         // of the last dimension
const Problem outer_gather = problem_of("x=2,y=4", "[4{x}8, 8]", "[8, 8]");         // of the first one

TEST(Lowering, keeps_collectives_in_their_own_form) {
  EXPECT_EQ(collectives(swapped, ProgramForm::collectives), "2 ppermute");
  EXPECT_EQ(collectives(among_four, ProgramForm::collectives), "all_to_all");
  EXPECT_EQ(collectives(among_eight, ProgramForm::collectives), "all_to_all");
  EXPECT_EQ(collectives(inner_gather, ProgramForm::collectives), "all_gather");
  EXPECT_EQ(collectives(outer_gather, ProgramForm::collectives), "all_gather");
}

TEST(Lowering, permutes_boxes_among_few_devices_in_the_fast_form) {
  EXPECT_EQ(collectives(swapped, ProgramForm::fast), "2 ppermute");
  EXPECT_EQ(collectives(among_four, ProgramForm::fast), "3 ppermute");
  EXPECT_EQ(collectives(among_eight, ProgramForm::fast), "all_to_all");
  EXPECT_EQ(collectives(inner_gather, ProgramForm::fast), "3 ppermute");
  EXPECT_EQ(collectives(outer_gather, ProgramForm::fast), "all_gather");
}

TEST(Lowering, sends_parts_of_tiles_in_the_lean_form) {
  EXPECT_EQ(collectives(outer_gather, ProgramForm::lean), "all_gather");
  const Problem problem = problem_of("x=2,y=4", "[64, 16{y}64]", "[16{y}64, 64]");
  const TensorProgram program = lower_problem(problem, options_for(ProgramForm::lean));
  for (const Statement& statement : program.statements()) {
    if (!std::holds_alternative<PermuteOp>(statement.operation)) continue;
    EXPECT_LE(product(statement.shape), 16 * 64 / 8);
  }
  EXPECT_EQ(collectives_text(program), "6 ppermute");  // three cells of a quarter, in two parts
}

TEST(Lowering, takes_collectives_but_for_large_tiles_alone_in_long_runs) {
  EXPECT_EQ(form_for("cpu", 1 << 20, 64, Surroundings::none), ProgramForm::fast);
  EXPECT_EQ(form_for("cpu", 1 << 20, 60, Surroundings::none), ProgramForm::collectives);
  EXPECT_EQ(form_for("cpu", 1 << 10, 64, Surroundings::none), ProgramForm::collectives);
  EXPECT_EQ(form_for("cpu", 1 << 20, 64, Surroundings::program), ProgramForm::collectives);
  EXPECT_EQ(form_for("gpu", 1 << 20, 64, Surroundings::none), ProgramForm::fast);
  EXPECT_EQ(form_for("gpu", 1 << 20, 64, Surroundings::program), ProgramForm::collectives);
  EXPECT_EQ(form_for("tpu", 1 << 20, 64, Surroundings::none), ProgramForm::collectives);
}

TEST(Lowering, goes_by_messages_where_groups_cannot_be_said) {
  LoweringOptions options;
  options.takes_groups = [](const Groups& groups) { return groups.front().size() < 8; };
  EXPECT_EQ(collectives_text(lower_problem(among_four, options)), "all_to_all");
  EXPECT_EQ(collectives_text(lower_problem(among_eight, options)), "7 ppermute");
}

// Rounds look through the slices before them, collectives do not, and what is combined is cut first.
TEST(Lowering, cuts_slices_where_they_are_not_looked_through) {
  const Problem problem = problem_of("x=4,y=2,z=4", "[1{y,x}8, 8, 8, 4]", "[8, 4{y}8, 2{x}8, 4]");
  const TensorProgram by_collectives = lower_problem(problem, {}, PlannerKind::paper);
  EXPECT_EQ(by_collectives.stages.size(), 4U);  // a slice, two alltoalls and a gather
  EXPECT_EQ(collectives_text(by_collectives), "2 all_to_all, all_gather");
  const TensorProgram fast = lower_problem(problem, options_for(ProgramForm::fast), PlannerKind::paper);
  EXPECT_EQ(fast.stages.size(), 3U);
  EXPECT_EQ(fast.stages.front().steps.last, 1U);
  const Problem sum = problem_of("x=2,y=2", "[8, 16] sum {x}", "[4{x}8, 8{y}16]");
  for (const Statement& statement : lower_problem(sum, {}).statements()) {
    if (!std::holds_alternative<CombineOp>(statement.operation)) continue;
    EXPECT_EQ(statement.shape, (Shape{4, 8}));
  }
}

TEST(ProgramCosts, count_what_comes_from_others) {
  EXPECT_EQ(costs_of(lower_problem(swapped, {})).received, 8);
  EXPECT_EQ(costs_of(lower_problem(swapped, {})).rounds, 2);
  EXPECT_EQ(costs_of(lower_problem(among_four, {})).received, 16 / 4 * 3);
  EXPECT_EQ(costs_of(lower_problem(among_four, options_for(ProgramForm::fast))).received, 16 / 4 * 3);
  EXPECT_EQ(costs_of(lower_problem(outer_gather, {})).received, 32);
  EXPECT_EQ(costs_of(lower_problem(problem_of("x=4", "[2{x}8]", "[2{x}8]"), {})).received, 0);
}

TEST(ProgramCosts, count_boxes_that_are_cut_to_be_sent) {
  EXPECT_EQ(costs_of(lower_problem(swapped, {})).cut, 8);
  EXPECT_EQ(costs_of(lower_problem(among_four, {})).cut, 0);
  EXPECT_EQ(costs_of(lower_problem(problem_of("x=4", "[8]", "[2{x}8]"), {})).cut, 0);
  EXPECT_EQ(costs_of(lower_problem(inner_gather, {})).largest, 64);
}

// The first is what a compiler does by itself.
TEST(TensorProgram, is_left_to_a_compiler_that_does_as_well) {
  const auto is_left = [](const Problem& problem, PlannerKind compilers) {
    return is_left_to_compiler(lower_problem(problem, {}, compilers),
                               lower_problem(problem, options_for(ProgramForm::fast)), Surroundings::none);
  };
  EXPECT_TRUE(is_left(outer_gather, PlannerKind::paper));
  EXPECT_TRUE(is_left(problem_of("x=4", "[8]", "[2{x}8]"), PlannerKind::paper));
  EXPECT_TRUE(is_left(problem_of("x=2,y=4", "[1{y,x}8, 8]", "[1{x,y}8, 8]"), PlannerKind::paper));  // a permutation
  EXPECT_FALSE(is_left(inner_gather, PlannerKind::paper));  // needs memory beside the values
  EXPECT_FALSE(is_left(among_eight, PlannerKind::paper));
  EXPECT_FALSE(is_left(swapped, PlannerKind::gather_slice));  // makes the whole array
  const Problem halved = problem_of("x=2,y=4", "[2{y}8, 8]", "[4{x}8, 8]");
  EXPECT_FALSE(is_left(halved, PlannerKind::gather_slice));  // receives more
}

TEST(TensorProgram, is_left_to_a_compiler_inside_a_program_that_does_as_well) {
  const auto is_left = [](const Problem& problem, PlannerKind compilers) {
    return is_left_to_compiler(lower_problem(problem, {}, compilers), lower_problem(problem, {}),
                               Surroundings::program);
  };
  EXPECT_TRUE(is_left(outer_gather, PlannerKind::paper));
  EXPECT_TRUE(is_left(inner_gather, PlannerKind::paper));
  EXPECT_TRUE(is_left(among_eight, PlannerKind::paper));
  EXPECT_FALSE(is_left(swapped, PlannerKind::gather_slice));  // makes the whole array
  EXPECT_FALSE(is_left(problem_of("x=2,y=4", "[2{y}8, 8]", "[4{x}8, 8]"), PlannerKind::gather_slice));  // receives more
  // Receives as much by two collectives instead of one.
  const Problem both = problem_of("x=2,y=4", "[4{x}8, 2{y}8]", "[8, 8]");
  EXPECT_FALSE(is_left_to_compiler(lower_problem(both, {}), lower_problem(outer_gather, {}), Surroundings::program));
}

// Shapes of all operands are known, and those of branches are the switch's.
TEST(TensorProgram, names_only_values_that_are_there) {
  test::RandomProblems random(5);
  int programs = 0;
  for (int i = 0; i < 500; ++i) {
    const Problem problem = test::any_problem(random);
    for (const ProgramForm form : {ProgramForm::collectives, ProgramForm::fast, ProgramForm::lean}) {
      try {
        const TensorProgram program = lower_problem(problem, options_for(form));
        const std::vector<Statement> statements = program.statements();
        for (std::size_t value = 0; value < statements.size(); ++value) {
          for (const Value operand : statements[value].operands) EXPECT_LE(operand, value);
          const auto* choice = std::get_if<SwitchOp>(&statements[value].operation);
          if (choice == nullptr) continue;
          for (const auto& branch : choice->branches) EXPECT_EQ(branch.back().shape, statements[value].shape);
        }
        const Shape& result = statements.empty() ? program.tile() : statements.back().shape;
        EXPECT_EQ(result, program.movement.target().local_shape());
        ++programs;
      } catch (const InputError& error) {
        EXPECT_NE(std::string(error.what()).find("JAX cannot say "), std::string::npos);
      }
    }
  }
  EXPECT_GT(programs, 100);
}

}  // namespace
}  // namespace retile::tensors
