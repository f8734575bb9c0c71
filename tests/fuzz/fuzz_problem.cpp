// A problem as JSON: planned, verified, run.
#include "retile/base/arithmetic.h"
#include "retile/checking/run.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

void check_plan(const Plan& plan) {
  for (const std::string& fault : find_faults(plan)) require(false, fault);
  const std::string text = to_json(plan);
  const auto [again, statements] = parse_plan({"written", text});
  require(to_json(again) == text, "a plan reads back");
  for (const std::string& fault : find_faults(again, statements)) require(false, fault);
}

void check_run(const Plan& plan, std::int64_t element_size) {
  RunOptions options;
  options.element_size = element_size;
  static const std::unique_ptr<Engine> engines[] = {make_reference_engine(), make_threads_engine()};
  for (const std::unique_ptr<Engine>& engine : engines) {
    const RunReport report = run_plan(plan, *engine, options);
    require(!report.difference, report.difference.value_or(""));
    require(report.peak_bytes_measured <= report.peak_bytes_predicted, "the peak is as predicted");
  }
}

void check_problem(const Problem& problem, const PlanOptions& options) {
  const auto plan = try_parse([&] { return make_plan(problem, options); });
  if (!plan) return;  // its cost does not fit in 63 bits
  check_plan(*plan);
  if (product(problem.source().global_shape()) <= 4096) check_run(*plan, bytes_of(problem.element_type()));
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const auto problem = fuzz::try_parse([&] {
    return parse_problem(SourceText{"problems", fuzz::text_of(data, size)});
  });
  if (!problem || problem->device_count() > 64 || problem->source().rank() > 8) return 0;
  for (const char* name : {"gather-slice", "paper", "wide", "direct"}) {
    const auto planner = find_planner(name);
    if (!planner) continue;
    for (const CostModel* model : {&paper_model(), &volume_model()}) {
      PlanOptions options;
      options.planner = *planner;
      options.cost_model = model;
      fuzz::check_problem(*problem, options);
    }
  }
  return 0;
}
