#include "retile/engines/tile_places.h"

#include <algorithm>

#include "retile/base/arithmetic.h"
#include "retile/engines/array.h"
#include "retile/engines/schedule.h"

namespace retile {
namespace {

std::int64_t add_sizes(std::int64_t a, std::int64_t b) { return checked_add(a, b).value_or(INT64_MAX); }

// The source is freed after the first stage, and so on: two tiles are alive at once.
std::int64_t donated_peak(const std::vector<std::int64_t>& sizes) {
  std::int64_t peak = sizes.front();
  for (std::size_t i = 1; i < sizes.size(); ++i) peak = std::max(peak, add_sizes(sizes[i - 1], sizes[i]));
  return peak;
}

std::int64_t kept_peak(const std::vector<std::int64_t>& sizes, TileUse use) {
  const KeptPlaces places = kept_places(sizes, use);
  return add_sizes(add_sizes(sizes.front(), sizes.back()), add_sizes(places.even_scratch, places.odd_scratch));
}

}  // namespace

std::vector<std::int64_t> stage_sizes(const Movement& movement) {
  std::vector<std::int64_t> sizes{movement.source.local_size()};
  for (const StageSteps& steps : stage_steps(movement.steps)) {
    sizes.push_back(movement.steps[steps.last].after.local_size());
  }
  return sizes;
}

KeptPlaces kept_places(const std::vector<std::int64_t>& sizes, TileUse use) {
  using Place = KeptPlaces::Place;
  KeptPlaces kept{{Place::owner}, 0, 0};
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    const bool even = (sizes.size() - 1 - i) % 2 == 0;
    const bool is_last = i + 1 == sizes.size();
    if (is_last || (even && use == TileUse::kept && sizes[i] <= sizes.back())) {
      kept.places.push_back(Place::target);
    } else {
      kept.places.push_back(even ? Place::even_scratch : Place::odd_scratch);
      std::int64_t& scratch = even ? kept.even_scratch : kept.odd_scratch;
      scratch = std::max(scratch, sizes[i]);
    }
  }
  return kept;
}

std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use) {
  const std::vector<std::int64_t> sizes = stage_sizes(movement);
  return checked_bytes(use == TileUse::donated ? donated_peak(sizes) : kept_peak(sizes, use), element_size);
}

}  // namespace retile
