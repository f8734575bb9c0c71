// Plans of smaller arrays that are cut alike. Code for large arrays checks itself on them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile::emission {

// A dimension of a source in which all tiles of the plan begin and end at multiples of `unit`. The smaller array has
// `smaller` elements for each unit.
struct Scale {
  int dimension = 0;
  std::int64_t unit = 1;
  std::int64_t smaller = 1;
};

// The dimensions that can be scaled, the one with the longest unit first. Empty where tiles are not equal.
std::vector<Scale> find_scales(const Movement& movement);

// The plan with its steps for the smaller array. Its costs and memory remain those of the larger one.
Plan scaled(Plan plan, const Scale& scale);

// Code for both arrays, made from the code for each: numbers that differ become multiples of UNIT. Comments are those
// of the larger array. Nothing where the two differ in more than multiples of the unit.
std::optional<std::string> merged(const std::string& larger, const std::string& smaller, const Scale& scale);

}  // namespace retile::emission
