// Runs of passes: units are read, decoded and scattered into target chunks, which are encoded and written as they
// become complete. Threads do all of that each for themselves; what is in memory is bounded by the plan.
#pragma once

#include <cstdint>
#include <functional>

#include "retile/engines/processes.h"
#include "retile/files/chunk_reader.h"
#include "retile/files/chunk_writer.h"
#include "retile/files/rechunk_plan.h"

namespace retile::files {

// Called with what has been read so far, in bytes, by one thread at a time.
using ReportProgress = std::function<void(std::int64_t read_bytes)>;

struct PassStatistics {
  std::int64_t read_bytes = 0;  // decoded
  std::int64_t written_bytes = 0;
  std::int64_t written_chunks = 0;
};

// Runs the regions of this process. `room` is the memory for target chunks, in bytes: at least what the plan's open
// chunks take. Throws RuntimeError.
PassStatistics run_pass(const PassPlan& plan, const ChunkSource& source, ChunkTarget& target, std::int64_t room,
                        const Processes& processes, const ReportProgress& report = {});

// A checksum that depends on the elements and not on their chunks, and almost surely differs for others: a sum over
// elements and their places. Reads every unit once, on as many threads as `room` bytes of memory allow, one at least.
// Collective: processes share the reading.
std::uint64_t checksum(const ChunkSource& source, int most_threads, std::int64_t room, const Processes& processes);

}  // namespace retile::files
