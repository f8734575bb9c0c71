// A problem planned, checked and run on made-up data, as `retile run` does it:
//
//   Problem ──make_plan──▶ Plan ──require_right──▶ Plan ──run_plan──▶ RunReport
//
// ARCHITECTURE.md has the other paths.
#pragma once

#include "retile/base/diagnostic.h"
#include "retile/engines/engine.h"
#include "retile/engines/run.h"
#include "retile/plan/plan.h"
#include "retile/planner/planner.h"
#include "retile/planner/problem.h"

namespace retile {

struct PipelineOptions {
  PlanOptions planning;
  RunOptions running;  // the element size comes from the problem
};

// Throws InputError, or RuntimeError where something is wrong behind it.
RunReport run_pipeline(const Problem& problem, Engine& engine, const PipelineOptions& options = {});

// Throws RuntimeError with the verifier's findings where the plan is wrong.
void require_right(const Plan& plan);

}  // namespace retile
