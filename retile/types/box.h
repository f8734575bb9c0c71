// Boxes of a global array: what a device holds, and what it lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/types/distributed_type.h"

namespace retile {

// The elements from `lo` up to but not including `hi`, in every dimension.
struct Box {
  Shape lo;
  Shape hi;

  bool operator==(const Box&) const = default;
};

Box box_at(const Shape& corner, const Shape& extent);
std::int64_t volume(const Box& box);
bool contains(const Box& outer, const Box& inner);

// Nothing where they share no element.
std::optional<Box> intersect(const Box& a, const Box& b);

// `box` less `hole`, as disjoint boxes; at most two per dimension.
std::vector<Box> subtract(const Box& box, const Box& hole);

// "[0:4, 8:16]".
std::string to_string(const Box& box);

}  // namespace retile
