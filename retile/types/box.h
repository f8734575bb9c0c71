// Boxes of a global array: what a device holds, and what it lacks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/types/distributed_type.h"

namespace retile {

// The indices from `lo` up to but not including `hi`.
struct Interval {
  std::int64_t lo = 0;
  std::int64_t hi = 0;

  std::int64_t size() const { return std::max<std::int64_t>(0, hi - lo); }
  bool operator==(const Interval&) const = default;
};

inline Interval intersect(Interval a, Interval b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

// The elements from `lo` up to but not including `hi`, in every dimension.
struct Box {
  Shape lo;
  Shape hi;

  bool operator==(const Box&) const = default;
};

Box box_at(const Shape& corner, const Shape& extent);
// The box's extent along each dimension, the index of its longest dimension, and its number of elements.
Shape extent_of(const Box& box);
std::size_t longest_dimension(const Box& box);
std::int64_t volume(const Box& box);
bool contains(const Box& outer, const Box& inner);

// The box that both share; nothing where they share no element.
std::optional<Box> intersect(const Box& a, const Box& b);

// `box` less `hole`, as disjoint boxes; at most two per dimension.
std::vector<Box> subtract(const Box& box, const Box& hole);

// A part of `box` that none of the boxes covers, or that at least two of them cover; nothing where there is no such
// part. Takes time n log n for n boxes that are tiles of a grid, in any order.
std::optional<Box> find_uncovered(const Box& box, const std::vector<Box>& boxes);
std::optional<Box> find_covered_twice(const Box& box, const std::vector<Box>& boxes);

// A text such as "[0:4, 8:16]".
std::string to_string(const Box& box);

}  // namespace retile
