#include "retile/pipeline.h"

#include <fmt/format.h>

#include "retile/base/error.h"
#include "retile/plan/verify.h"

namespace retile {

RunReport run_pipeline(const Problem& problem, Engine& engine, const PipelineOptions& options) {
  PlanOptions planning = options.planning;
  planning.tiles = options.running.tiles;
  planning.engine = engine.memory();
  const Plan plan = make_plan(problem, planning);
  RunOptions running = options.running;
  running.element_size = bytes_of(problem.element_type());
  require_memory(plan, engine, running);  // before the check of every box, which takes longer
  require_right(plan);
  return run_plan(plan, engine, running);
}

void require_right(const Plan& plan) {
  std::string message;
  for (const std::string& fault : find_faults(plan)) message += "\n  " + fault;
  if (!message.empty()) throw RuntimeError(fmt::format("the plan {} is wrong:{}", plan.id, message));
}

}  // namespace retile
