// Memory limits as users write them: 4096, 512MiB, 2.5x.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "retile/base/diagnostic.h"
#include "retile/planner/problem.h"

namespace retile {

// A limit per device, as a multiple of the larger of the source's and the target's tile.
struct MemoryFactor {
  double factor = 1;
};
struct MemoryBytes {
  std::int64_t bytes = 0;
};
using MemoryLimit = std::variant<MemoryFactor, MemoryBytes>;

// Parses a memory limit. Throws InputError. Units are B, KB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (of
// 1024); a number without a unit is in bytes.
MemoryLimit parse_memory_limit(const SourceText& source);
// Parses a number of bytes; factors are errors. Throws InputError.
std::int64_t parse_byte_count(const SourceText& source);

// The limit in bytes for this problem, whose larger tile a factor multiplies.
std::int64_t bytes_of(const MemoryLimit& limit, const Problem& problem);

}  // namespace retile
