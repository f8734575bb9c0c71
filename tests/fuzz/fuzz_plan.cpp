// A plan as JSON. What the verifier finds no fault in must move the data to where they belong.
#include "retile/engines/array.h"
#include "retile/engines/reference/reference.h"
#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

void check_run(const Plan& plan) {
  constexpr std::int64_t element_size = 3;
  const Tile array = make_array(plan.source.global_shape(), element_size, 1);
  const ReferenceResult result =
      run_reference(plan, slice_array(array, Placement(plan.source), element_size), element_size);
  const auto difference = find_difference(array, result.tiles, Placement(plan.target), element_size);
  require(!difference, difference.value_or(""));
  require(result.statistics.peak_measured <= result.statistics.peak_predicted, "the peak is as predicted");
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const auto plan = fuzz::try_parse([&] { return parse_plan({"plan", fuzz::text_of(data, size)}); });
  if (!plan || plan->mesh().device_count() > 64) return 0;
  const std::string text = to_json(*plan);
  fuzz::require(to_json(parse_plan({"written", text})) == text, "a plan reads back");
  const bool right = find_faults(*plan).empty();
  if (right && plan->source.global_size() <= 4096) fuzz::check_run(*plan);
  return 0;
}
