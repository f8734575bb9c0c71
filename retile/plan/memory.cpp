#include "retile/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

using Between = EngineMemory::Between;

std::int64_t add_sizes(std::int64_t a, std::int64_t b) { return checked_add(a, b).value_or(INT64_MAX); }

// The source is released after the first copy, and so on: two tiles are alive at once.
std::int64_t largest_pair(const std::vector<std::int64_t>& sizes) {
  std::int64_t peak = sizes.front();
  for (std::size_t i = 1; i < sizes.size(); ++i) peak = std::max(peak, add_sizes(sizes[i - 1], sizes[i]));
  return peak;
}

std::vector<std::int64_t> step_sizes(const Movement& movement) {
  std::vector<std::int64_t> sizes{movement.source.local_size()};
  for (const Step& step : movement.steps) sizes.push_back(step.after.local_size());
  return sizes;
}

std::int64_t peak_elements(const Movement& movement, TileUse use, Between between) {
  const std::vector<std::int64_t> sizes = between == Between::every_step ? step_sizes(movement) : stage_sizes(movement);
  if (use == TileUse::donated) return largest_pair(sizes);
  const std::int64_t ends = add_sizes(sizes.front(), sizes.back());
  if (between == Between::every_step) return add_sizes(ends, largest_pair(sizes));
  const KeptPlaces places = kept_places(sizes, use, between);
  return add_sizes(ends, add_sizes(places.even_scratch, places.odd_scratch));
}

}  // namespace

std::vector<StageSteps> stage_steps(const std::vector<Step>& steps) {
  std::vector<StageSteps> stages;
  std::size_t first = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (op_of(steps[i]) == StepOp::dynslice && i + 1 < steps.size()) continue;
    stages.push_back({first, i});
    first = i + 1;
  }
  return stages;
}

std::vector<std::int64_t> stage_sizes(const Movement& movement) {
  std::vector<std::int64_t> sizes{movement.source.local_size()};
  for (const StageSteps& steps : stage_steps(movement.steps)) {
    sizes.push_back(movement.steps[steps.last].after.local_size());
  }
  return sizes;
}

KeptPlaces kept_places(const std::vector<std::int64_t>& sizes, TileUse use, Between between) {
  using Place = KeptPlaces::Place;
  const bool shares_target = use == TileUse::kept && between == Between::in_target;
  KeptPlaces kept{{Place::owner}, 0, 0};
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const bool even = (sizes.size() - 1 - i) % 2 == 0;
    const bool is_last = i + 1 == sizes.size();
    if (is_last || (even && shares_target && sizes[i] <= sizes.back())) {
      kept.places.push_back(Place::target);
    } else {
      kept.places.push_back(even ? Place::even_scratch : Place::odd_scratch);
      std::int64_t& scratch = even ? kept.even_scratch : kept.odd_scratch;
      scratch = std::max(scratch, sizes[i]);
    }
  }
  return kept;
}

std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use,
                                const EngineMemory& engine) {
  const std::int64_t elements = peak_elements(movement, use, engine.between);
  const auto bytes = checked_multiply(elements, element_size);
  if (!bytes) throw RuntimeError(fmt::format("{} elements of {} bytes do not fit in 63 bits", elements, element_size));
  return add_sizes(*bytes, movement.steps.empty() ? 0 : engine.staging);
}

}  // namespace retile
