#include "retile/types/box.h"

#include <fmt/format.h>

#include <algorithm>

namespace retile {

Box box_at(const Shape& corner, const Shape& extent) {
  Box box{corner, corner};
  for (std::size_t i = 0; i < corner.size(); ++i) box.hi[i] += extent[i];
  return box;
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
  Box result = a;
  for (std::size_t i = 0; i < a.lo.size(); ++i) {
    result.lo[i] = std::max(a.lo[i], b.lo[i]);
    result.hi[i] = std::min(a.hi[i], b.hi[i]);
    if (result.lo[i] >= result.hi[i]) return std::nullopt;
  }
  return result;
}

std::vector<Box> subtract(const Box& box, const Box& hole) {
  const std::optional<Box> shared = intersect(box, hole);
  if (!shared) return {box};
  std::vector<Box> rest;
  Box core = box;  // shrinks to the shared box; what is cut off is left over
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

std::string to_string(const Box& box) {
  std::string out = "[";
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    out += fmt::format("{}{}:{}", i == 0 ? "" : ", ", box.lo[i], box.hi[i]);
  }
  return out + "]";
}

}  // namespace retile
