// Arrays from Python: addresses of memory that Python keeps alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "bindings.h"

namespace retile::python {

// The address of an array's first element, its shape, and its strides in bytes; no strides where it is packed.
using PythonArray = std::tuple<std::uintptr_t, Shape, Strides>;

// The arrays of one side of a redistribution.
struct ArraysInMemory {
  ArraysInMemory(const std::vector<PythonArray>& arrays, std::int64_t element_size) {
    for (const auto& [address, shape, strides] : arrays) {
      const std::optional<Reach> reach = reach_of({box_at(Shape(shape.size()), shape), strides}, element_size);
      if (!reach) throw RuntimeError("an array reaches beyond 62 bits");
      layouts.push_back({-reach->begin, strides});
      // NOLINTNEXTLINE(*-reinterpret-cast): Python gives addresses as numbers
      spans.emplace_back(reinterpret_cast<std::byte*>(address) + reach->begin,
                         static_cast<std::size_t>(reach->end - reach->begin));
    }
    const auto is_packed = [](const MemoryLayout& layout) { return layout.strides.empty(); };
    if (std::all_of(layouts.begin(), layouts.end(), is_packed)) layouts.clear();
  }

  std::vector<std::span<const std::byte>> sources() const { return {spans.begin(), spans.end()}; }

  std::vector<MemoryLayout> layouts;
  std::vector<std::span<std::byte>> spans;
};

}  // namespace retile::python
