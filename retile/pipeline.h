// READ FIRST: the path of the data, each arrow one function, value in, value out.
//
//   text ──parse_problem──▶ Problem ──make_plan──▶ Plan ──require_right──▶ Plan ──run_plan──▶ RunReport
//
// and for programs, whose redistributions take the path above:
//
//   text ──parse_program──▶ SyntaxTree ──check_program──▶ Program ──lower_program──▶ LoweredProgram
//   LoweredProgram ──run_program──▶ arrays
//                └──lowered_tree──▶ SyntaxTree of collectives, a program again
//
// Every value prints: to_string() for people, to_json() for programs. The folders follow the path:
// base, types, collectives, plan, planner, engines; language (checker.h, lowering.h), runtime (runtime.h).
#pragma once

#include <optional>

#include "retile/base/diagnostic.h"
#include "retile/checking/run.h"
#include "retile/engines/engine.h"
#include "retile/plan/plan.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

struct PipelineOptions {
  PlanOptions planning;
  RunOptions running;  // the element size comes from the problem
};

struct PipelineResult {
  Problem problem;
  Plan plan;
  RunReport run;
};

// The whole path for one problem, run by the threads engine unless another is given. Throws InputError, or RuntimeError
// where something is wrong behind it.
PipelineResult run_pipeline(const Problem& problem, const PipelineOptions& options = {});
PipelineResult run_pipeline(const Problem& problem, Engine& engine, const PipelineOptions& options = {});

// Throws RuntimeError with the verifier's findings where the plan is wrong.
void require_right(const Plan& plan);

}  // namespace retile
