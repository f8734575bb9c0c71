// One dimension of an array that is cut into chunks: where chunks and the units inside them begin and end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "retile/base/arithmetic.h"
#include "retile/types/box.h"

namespace retile::files {

// Chunks lie side by side from element 0; the last one may reach beyond the array. A unit is what is decoded at once:
// units cut every chunk from its first element, and the last unit of a chunk may be shorter.
struct CutDimension {
  std::int64_t size = 1;   // elements of the array
  std::int64_t chunk = 1;  // elements of a chunk
  std::int64_t unit = 1;   // elements of a unit, at most a chunk

  std::int64_t chunks() const { return divide_up(size, chunk); }
  std::int64_t units_per_chunk() const { return divide_up(chunk, unit); }

  // The number of the unit that holds an element.
  std::int64_t unit_at(std::int64_t element) const {
    return element / chunk * units_per_chunk() + element % chunk / unit;
  }
  // All elements of a unit, those beyond the array included.
  Interval unit_interval(std::int64_t number) const {
    const std::int64_t first = number / units_per_chunk() * chunk;
    const std::int64_t begin = first + number % units_per_chunk() * unit;
    return {begin, std::min(begin + unit, first + chunk)};
  }
};

}  // namespace retile::files
