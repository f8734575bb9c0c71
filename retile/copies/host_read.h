// Reading memory of another process of this host through the system: one copy, straight into the target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "retile/copies/copy.h"

namespace retile {

// A range of a copy whose source tile is at this address in the other process. Throws RuntimeError where the system
// refuses.
void read_box(const BoxCopy& copy, std::int64_t process, const std::byte* source, std::byte* target, ByteRange range);

// The longest gaps between runs that are read along with them. They are shorter than a page, so that all that is read
// is there.
constexpr std::int64_t most_read_gap = 4095;

// Whether a gap behind so many bytes is read along, because a part of its own would take the system longer.
inline bool is_read_along(std::int64_t gap, std::int64_t bytes) {
  return gap >= 0 && gap <= most_read_gap && gap <= 3 * bytes;
}

// One range of another process's memory, as runs of so many bytes. False where the system refuses.
bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes,
                 std::int64_t run_bytes);

// Shorter runs are never read: the system works page by page.
constexpr std::int64_t least_read_run = 2048;

// The shortest runs, in bytes, that are clearly faster to read through the system than to copy twice, through memory
// that stays in the cache; INT64_MAX if none are. A trial in so many bytes of memory, at least 1 MiB of it.
std::int64_t shortest_read_run(std::int64_t trial_bytes);

}  // namespace retile
