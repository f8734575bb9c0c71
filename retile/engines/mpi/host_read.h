// Reading a box from a tile in another process's own memory, through the system: one copy, straight into the target.
#pragma once

#include <cstddef>
#include <cstdint>

#include "retile/copies/copy.h"

namespace retile::mpi {

// `source` is an address in the other process. Throws RuntimeError where the system refuses.
void read_box(const BoxCopy& copy, std::int64_t process, const std::byte* source, std::byte* target);

// One range of another process's memory, as runs of so many bytes. False where the system refuses.
bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes,
                 std::int64_t run_bytes);

// Shorter runs are never read: the system works page by page.
constexpr std::int64_t least_read_run = 2048;

// The shortest runs, in bytes, that are clearly faster to read through the system than to copy twice, through memory
// that stays in the cache; INT64_MAX if none are. A trial in so many bytes of memory, at least 1 MiB of it.
std::int64_t shortest_read_run(std::int64_t trial_bytes);

}  // namespace retile::mpi
