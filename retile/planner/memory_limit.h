// Memory limits as users write them: 1.5x, 4096, 512MiB.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "retile/base/diagnostic.h"
#include "retile/planner/problem.h"

namespace retile {

// Per device. A factor is of the larger of the source's and the target's tile.
struct MemoryFactor {
  double factor = 1;
};
struct MemoryElements {
  std::int64_t elements = 0;
};
struct MemoryBytes {
  std::int64_t bytes = 0;
};
using MemoryLimit = std::variant<MemoryFactor, MemoryElements, MemoryBytes>;

// Throws InputError. Units are B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (of 1024).
MemoryLimit parse_memory_limit(const SourceText& source);

// The limit in elements of the problem's type.
std::int64_t elements_of(const MemoryLimit& limit, const Problem& problem);

}  // namespace retile
