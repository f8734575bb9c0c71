// retile emit
#include <fmt/format.h>

#include <optional>
#include <string>

#include "retile/emission/emission.h"
#include "retile/tensors/lowering.h"
#include "tools/retile/command.h"
#include "tools/retile/input.h"
#include "tools/retile/options.h"
#include "tools/retile/output.h"
#include "tools/retile/plan_file.h"

namespace retile::command {
namespace emit_command {

constexpr const char* examples =
    R"(Writes the plan as code that needs no retile, with a check of its own where it can be run:
  jax        a Python function over your mesh; python redistribute.py checks it on the processor
  mpi        a C++ function for MPI ranks; mpicxx and mpirun check it. Any layout: uneven, sums, listed boxes
  stablehlo  a module of what each partition does
  mlir       the same in MLIR's mesh dialect (LLVM 19)

Instead of SRC and DST, a plan may be given as JSON, as a file or - for standard input; it is checked first.

Examples:
  retile emit --as jax --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]'
  retile emit --as mpi --mesh x=4 '[3{x}11, 8]' '[11, 2{x}8]' --dtype f64
  retile emit --as stablehlo --shape 'f32[16,16,16]' '{devices=[2,1,4]<=[4,2]T(1,0)}' '{devices=[1,8,1]<=[8]}'
  retile plan --mesh x=4 '[2{x}8, 8]' '[8, 2{x}8]' --json | retile emit --as mlir -)";

struct Arguments {
  ProblemArguments problem;
  std::string target;
  std::string form;  // of JAX's code; empty: none was requested
  std::optional<std::string> path;
};

void write_code(const Arguments& arguments, const Plan& plan, ElementType element) {
  const auto form = tensors::find_program_form(arguments.form).value_or(tensors::ProgramForm::collectives);
  write_result_to(arguments.path, emission::emit(plan, element, *emission::find_target(arguments.target), form));
}

// Adds to a plan from elsewhere what it does not state, because the code's comments need it.
void complete(StatedPlan& stated, const CostModel& model) {
  Plan& plan = stated.plan;
  if (!stated.statements.cost) {
    plan.cost = price(model, plan.movement);
    plan.cost.floor = plan.cost.lower_bound = 0;
  }
  if (!stated.statements.memory) {
    plan.memory = {plan.movement.source.local_size(), plan.movement.target().local_size(), 0, height(plan.movement)};
  }
}

Executor executor_of(emission::Target target) {
  return target == emission::Target::mpi ? Executor() : tensors::executor_of_tensors();
}

int run(const Arguments& arguments) {
  if (!arguments.form.empty() && arguments.target != "jax") throw UsageError("--form goes with --as jax");
  if (arguments.problem.notation) throw UsageError("--notation goes with retile plan");
  if (is_plan_file(arguments.problem)) {
    const auto write = [&](StatedPlan stated, StatedElement element) {
      complete(stated, *planner_options(arguments.problem).cost_model);
      write_code(arguments, stated.plan, element.value_or(ElementType::f32));
    };
    return for_each_plan(arguments.problem, write, 1);
  }
  const Executor executor = executor_of(*emission::find_target(arguments.target));
  const auto write = [&](const Problem& problem) {
    write_code(arguments, plan_for(arguments.problem, problem, TileUse::kept, executor), problem.element_type());
  };
  return for_each_problem(arguments.problem, "writing", write, 1);
}

}  // namespace emit_command

void add_emit_command(Command app, int* status) {
  using namespace emit_command;
  const auto [command, arguments] =
      add_subcommand(app, "emit", "Write the plan as code: JAX, MPI, StableHLO or MLIR", examples, run, status);
  add_problem_options(command, arguments.problem, PlannerChoice::with_xla);
  command.add_option("--as", arguments.target, fmt::format("what to write: {}", emission::target_names))
      .check(known_name(emission::target_names))
      .required()
      .type_name("TARGET");
  command
      .add_option(
          "--form", arguments.form,
          fmt::format(
              "form of JAX's code: {} (outside jit, retile.jax takes fast for large tiles on CPU devices and GPUs)",
              tensors::program_form_names))
      .check(known_name(tensors::program_form_names))
      .type_name("FORM");
  command.add_option("--out", arguments.path, "file to write, by default standard output").type_name("FILE");
}

}  // namespace retile::command
