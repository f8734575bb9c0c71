// A plan as JSON. What the verifier finds no fault in must move the data to where they belong.
#include "retile/base/arithmetic.h"
#include "retile/checking/run.h"
#include "retile/engines/reference/reference.h"
#include "retile/engines/threads/threads.h"
#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/schedule/stage.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

void check_run(const Plan& plan) {
  RunOptions options;
  options.element_size = 3;
  for (const Step& step : plan.steps()) {
    const auto* reduce = std::get_if<ReduceStep>(&step.operation);
    if (reduce != nullptr) options.element_size = bytes_of(reduce->element);
  }
  if (find_element_fault(plan.movement, options.element_size)) return;  // reductions of different types
  static const std::unique_ptr<Engine> engines[] = {make_reference_engine(), make_threads_engine()};
  for (const std::unique_ptr<Engine>& engine : engines) {
    const RunReport report = run_plan(plan, *engine, options);
    require(!report.difference, report.difference.value_or(""));
    require(report.peak_bytes_measured <= report.peak_bytes_predicted, "the peak is as predicted");
  }
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const auto stated = fuzz::try_parse([&] { return parse_plan({"plan", fuzz::text_of(data, size)}); });
  if (!stated || stated->plan.mesh().device_count() > 64) return 0;
  const Plan& plan = stated->plan;
  if (stated->statements.cost) {
    const std::string text = to_json(plan);
    fuzz::require(to_json(parse_plan({"written", text}).plan) == text, "a plan reads back");
  }
  const bool right = find_faults(plan, stated->statements).empty();
  if (right && product(plan.source.global_shape()) <= 4096) fuzz::check_run(plan);
  return 0;
}
