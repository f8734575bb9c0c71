#include "retile/plan/memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"

namespace retile {
namespace {

using Between = EngineMemory::Between;

std::int64_t add_sizes(std::int64_t a, std::int64_t b) { return checked_add(a, b).value_or(INT64_MAX); }

// The largest sum of two neighbouring sizes: a tile is released after the copy that reads it, so two are alive at once.
std::int64_t largest_pair(const std::vector<std::int64_t>& sizes) {
  std::int64_t peak = sizes.front();
  for (std::size_t i = 1; i < sizes.size(); ++i) peak = std::max(peak, add_sizes(sizes[i - 1], sizes[i]));
  return peak;
}

StageSizes step_sizes(const Movement& movement) {
  std::vector<const Placement*> stops{&movement.source};
  for (const Step& step : movement.steps) stops.push_back(&step.after);
  return StageSizes(stops);
}

std::int64_t peak_of_device(const std::vector<std::int64_t>& sizes, TileUse use, Between between,
                            std::int64_t scratch) {
  if (use == TileUse::donated) return largest_pair(sizes);
  const std::int64_t ends = add_sizes(sizes.front(), sizes.back());
  return add_sizes(ends, between == Between::every_step ? largest_pair(sizes) : scratch);
}

std::int64_t peak_elements(const Movement& movement, TileUse use, Between between) {
  const StageSizes sizes = between == Between::every_step ? step_sizes(movement) : stage_sizes(movement);
  const bool has_scratch = use != TileUse::donated && between != Between::every_step;
  const KeptPlaces places = has_scratch ? kept_places(sizes, use, between) : KeptPlaces{};
  std::int64_t peak = 0;
  for (Device device = 0; device < sizes.distinct_devices(); ++device) {
    const std::int64_t scratch = add_sizes(places.scratch(KeptPlaces::Place::even_scratch, sizes, device),
                                           places.scratch(KeptPlaces::Place::odd_scratch, sizes, device));
    peak = std::max(peak, peak_of_device(sizes.of(device), use, between, scratch));
  }
  return peak;
}

}  // namespace

std::vector<StageSteps> stage_steps(const std::vector<Step>& steps) {
  std::vector<StageSteps> stages;
  std::size_t first = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    // A reduction reads parts that lie together, so a slice before it is a copy of its own.
    const bool is_looked_through = i + 1 < steps.size() && op_of(steps[i + 1]) != StepOp::reduce;
    if (op_of(steps[i]) == StepOp::dynslice && is_looked_through) continue;
    stages.push_back({first, i});
    first = i + 1;
  }
  return stages;
}

StageSizes::StageSizes(const std::vector<const Placement*>& stops) {
  for (const Placement* stop : stops) {
    std::vector<std::int64_t>& sizes = sizes_.emplace_back();
    if (stop->is_even()) {
      sizes.push_back(stop->local_size());
      continue;
    }
    distinct_ = stop->device_count();
    for (Device device = 0; device < stop->device_count(); ++device) sizes.push_back(stop->size(device));
  }
}

std::vector<std::int64_t> StageSizes::of(Device device) const {
  std::vector<std::int64_t> sizes;
  for (std::size_t stop = 0; stop < stops(); ++stop) sizes.push_back(of(stop, device));
  return sizes;
}

StageSizes stage_sizes(const Movement& movement) {
  std::vector<const Placement*> stops{&movement.source};
  for (const StageSteps& steps : stage_steps(movement.steps)) stops.push_back(&movement.steps[steps.last].after);
  return StageSizes(stops);
}

std::int64_t KeptPlaces::scratch(Place kind, const StageSizes& sizes, Device device) const {
  std::int64_t largest = 0;
  for (std::size_t stop = 0; stop < places.size(); ++stop) {
    if (places[stop] == kind) largest = std::max(largest, sizes.of(stop, device));
  }
  return largest;
}

KeptPlaces kept_places(const StageSizes& sizes, TileUse use, Between between) {
  using Place = KeptPlaces::Place;
  const bool shares_target = use == TileUse::kept && between == Between::in_target;
  const std::size_t last = sizes.stops() - 1;
  const auto fits_target = [&](std::size_t stop) {
    for (Device device = 0; device < sizes.distinct_devices(); ++device) {
      if (sizes.of(stop, device) > sizes.of(last, device)) return false;
    }
    return true;
  };
  KeptPlaces kept{{Place::owner}};
  for (std::size_t stop = 1; stop <= last; ++stop) {
    const bool even = (last - stop) % 2 == 0;
    if (stop == last || (even && shares_target && fits_target(stop))) {
      kept.places.push_back(Place::target);
    } else {
      kept.places.push_back(even ? Place::even_scratch : Place::odd_scratch);
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
