#include "retile/types/box.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "retile/base/arithmetic.h"

namespace retile {
namespace {

enum class Cover { never, twice };

struct Cut {
  std::size_t dimension = 0;
  std::int64_t at = 0;
};

// A cut through the median of the edges that boxes have inside the region, along the dimension with the most edges.
Cut median_cut(const Box& region, const std::vector<const Box*>& boxes) {
  Cut cut;
  std::vector<std::int64_t> most;
  for (std::size_t i = 0; i < region.lo.size(); ++i) {
    std::vector<std::int64_t> edges;
    for (const Box* box : boxes) {
      if (box->lo[i] > region.lo[i]) edges.push_back(box->lo[i]);
      if (box->hi[i] < region.hi[i]) edges.push_back(box->hi[i]);
    }
    if (edges.size() <= most.size()) continue;
    most = std::move(edges);
    cut.dimension = i;
  }
  const auto median = most.begin() + static_cast<std::ptrdiff_t>(most.size() / 2);
  std::nth_element(most.begin(), median, most.end());
  cut.at = *median;
  return cut;
}

// A part of the region with the wanted cover. Each of the boxes overlaps the region. Halves the region until the number
// of boxes that contain it decides: every other box has an edge inside.
std::optional<Box> find_part(Box region, const std::vector<const Box*>& boxes, Cover wanted) {
  const auto around = std::count_if(boxes.begin(), boxes.end(), [&](const Box* box) { return contains(*box, region); });
  if (wanted == Cover::never && boxes.empty()) return region;
  if (wanted == Cover::never && around > 0) return std::nullopt;
  if (wanted == Cover::twice && around > 1) return region;
  if (wanted == Cover::twice && boxes.size() < 2) return std::nullopt;
  const Cut cut = median_cut(region, boxes);
  std::vector<const Box*> below;
  std::vector<const Box*> above;
  for (const Box* box : boxes) {
    if (box->lo[cut.dimension] < cut.at) below.push_back(box);
    if (box->hi[cut.dimension] > cut.at) above.push_back(box);
  }
  Box lower = region;
  lower.hi[cut.dimension] = region.lo[cut.dimension] = cut.at;
  if (auto part = find_part(std::move(lower), below, wanted)) return part;
  return find_part(std::move(region), above, wanted);
}

std::optional<Box> find_part_of(const Box& box, const std::vector<Box>& boxes, Cover wanted) {
  std::vector<const Box*> sharing;
  for (const Box& other : boxes) {
    if (intersect(box, other)) sharing.push_back(&other);
  }
  return find_part(box, sharing, wanted);
}

}  // namespace

Box box_at(const Shape& corner, const Shape& extent) {
  Box box{corner, corner};
  // The corner may come from a plan that somebody else wrote, so that the sum may overflow.
  for (std::size_t i = 0; i < corner.size(); ++i) box.hi[i] = checked_add(corner[i], extent[i]).value_or(INT64_MAX);
  return box;
}

Shape extent_of(const Box& box) {
  Shape extent(box.lo.size());
  std::transform(box.hi.begin(), box.hi.end(), box.lo.begin(), extent.begin(), std::minus<>());
  return extent;
}

std::size_t longest_dimension(const Box& box) {
  const Shape extent = extent_of(box);
  return static_cast<std::size_t>(std::max_element(extent.begin(), extent.end()) - extent.begin());
}

std::int64_t volume(const Box& box) {
  std::int64_t result = 1;
  for (std::size_t i = 0; i < box.lo.size(); ++i) result *= box.hi[i] - box.lo[i];
  return result;
}

bool contains(const Box& outer, const Box& inner) {
  for (std::size_t i = 0; i < outer.lo.size(); ++i) {
    if (inner.lo[i] < outer.lo[i] || inner.hi[i] > outer.hi[i]) return false;
  }
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  for (std::size_t i = 0; i < a.lo.size(); ++i) {  // most pairs share nothing: allocate nothing for those
    if (std::max(a.lo[i], b.lo[i]) >= std::min(a.hi[i], b.hi[i])) return std::nullopt;
  }
  Box result = a;
  for (std::size_t i = 0; i < a.lo.size(); ++i) {
    result.lo[i] = std::max(a.lo[i], b.lo[i]);
    result.hi[i] = std::min(a.hi[i], b.hi[i]);
  }
  return result;
}

std::vector<Box> subtract(const Box& box, const Box& hole) {
  const std::optional<Box> shared = intersect(box, hole);
  if (!shared) return {box};
  std::vector<Box> rest;
  Box core = box;  // shrinks to the shared box; each piece cut off is left over
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    if (core.lo[i] < shared->lo[i]) {
      rest.push_back(core);
      rest.back().hi[i] = shared->lo[i];
    }
    if (shared->hi[i] < core.hi[i]) {
      rest.push_back(core);
      rest.back().lo[i] = shared->hi[i];
    }
    core.lo[i] = shared->lo[i];
    core.hi[i] = shared->hi[i];
  }
  return rest;
}

std::optional<Box> find_uncovered(const Box& box, const std::vector<Box>& boxes) {
  return find_part_of(box, boxes, Cover::never);
}

std::optional<Box> find_covered_twice(const Box& box, const std::vector<Box>& boxes) {
  return find_part_of(box, boxes, Cover::twice);
}

std::string to_string(const Box& box) {
  std::string out = "[";
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    out += fmt::format("{}{}:{}", i == 0 ? "" : ", ", box.lo[i], box.hi[i]);
  }
  return out + "]";
}

}  // namespace retile
