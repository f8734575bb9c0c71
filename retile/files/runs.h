// Boxes of elements between a file and a tile in memory, run by run.
#pragma once

#include <cstddef>

#include "retile/copies/copy.h"
#include "retile/files/file.h"
#include "retile/files/reads.h"
#include "retile/memory/buffer.h"

namespace retile::files {

// Bytes of a window: short runs that lie close together in a file are read and written through it at once.
constexpr std::int64_t window_bytes = 1 << 17;

// Reads what a copy from a file to a tile moves; its places in the file count from the file's beginning. `window` is
// memory that it keeps, and is made where it is needed. Both throw RuntimeError.
void read_runs(const File& file, const BoxCopy& copy, std::byte* tile, Buffer& window, Reads reads);
// Writes what a copy from a tile to a file moves.
void write_runs(const std::byte* tile, const BoxCopy& copy, const File& file, Buffer& window);

}  // namespace retile::files
