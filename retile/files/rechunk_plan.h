// Plans that bring an array from one chunking to another within a cap on memory: which elements are in memory at once,
// what is read and written for it, and the least that any plan reads and writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/types/box.h"

namespace retile::files {

// Memory of a thread that reads byte ranges, and the most that it reads at once. No element is larger than that.
constexpr std::int64_t range_bytes = 1 << 20;
constexpr std::int64_t most_range_bytes = range_bytes - (1 << 17);

// The costs of a disk. A value: other disks have other figures.
struct FileCosts {
  double read_rate = 2e9;         // bytes a second
  double write_rate = 1e9;        // bytes a second
  double decode_rate = 1e9;       // bytes a second and thread, of what is decoded
  double request_seconds = 1e-5;  // of one read or write that does not follow the one before it
};

// The chunks that a pass reads.
struct PassSource {
  Shape chunk;                    // elements that are stored together
  Shape unit;                     // elements that are decoded together; units cut every chunk from its first element
  DimensionOrder order;           // of the elements in a chunk, outermost dimension first
  bool has_ranges = false;        // every element can be read by itself, because nothing is compressed
  std::int64_t thread_bytes = 0;  // memory of a thread that reads and decodes a unit
  std::int64_t range_thread_bytes = range_bytes;  // and of one that reads byte ranges
};

// The chunks that a pass writes, each once and as a whole.
struct PassTarget {
  Shape chunk;
  std::int64_t thread_bytes = 0;  // memory of a thread that encodes a chunk
  Shape shard = {};               // chunks in a shard are written by one process; empty where there are none
};

struct PassProblem {
  Shape shape;
  std::int64_t element_size = 1;
  PassSource source;
  PassTarget target;
};

enum class ReadMode {
  units,   // a unit is read as a whole, and again for each region that it meets
  ranges,  // the elements that are wanted, byte range by byte range
};

// One pass over the array. Regions are blocks of whole target chunks; they are filled one after the other, and each
// chunk is written when it is complete. Where a dimension is swept, regions go through the whole array along it, and
// only the target chunks that the current units meet are in memory.
struct PassPlan {
  PassProblem problem;
  ReadMode mode = ReadMode::units;
  std::optional<std::size_t> swept;
  Shape region;  // elements; multiples of the target's chunk
  std::int64_t regions = 1;
  std::int64_t open_chunks = 1;  // target chunks in memory at once, at most
  int threads = 1;
  std::int64_t memory_bytes = 0;   // of open chunks and threads
  std::int64_t read_bytes = 0;     // decoded
  std::int64_t written_bytes = 0;  // before they are encoded
  std::int64_t requests = 0;       // reads of units or byte ranges, and writes of chunks
  double seconds = 0;              // by FileCosts, of the process that has most to do
};

struct RechunkOptions {
  std::int64_t max_bytes = 0;  // for chunks and threads; what the program itself takes is not in it
  int threads = 1;             // at most
  FileCosts costs = {};
  int processes = 1;  // that share the regions out
};

// Bounds that are proved for every plan.
struct RechunkBounds {
  std::int64_t least_read_bytes = 0;     // every source element is read once, in units where they cannot be split
  std::int64_t least_written_bytes = 0;  // every target chunk is written once
  std::int64_t least_memory_bytes = 0;   // below it no plan of this planner works
  int least_passes = 1;                  // of external memory: ⌈log(regions) / log(memory / block)⌉
};

// One pass, or several with intermediate arrays between them.
struct RechunkPlan {
  std::vector<PassPlan> passes;  // what one writes, the next one reads
  RechunkBounds bounds;
  // Seconds of the best plan of so many passes, from one pass on; infinite where none was found. Any plan of more
  // passes than are listed takes `more_seconds` at least.
  std::vector<double> seconds_by_passes = {};
  double more_seconds = 0;

  std::int64_t read_bytes() const;
  std::int64_t written_bytes() const;
  std::int64_t memory_bytes() const;  // the larger pass's
  double seconds() const;
};

// Regions that meet a common shard are filled by the same process: they are one share. This is the extent of shares
// along a dimension of `size` elements, in whole regions. `shard` is 0 where there are none.
std::int64_t share_extent(std::int64_t region, std::int64_t shard, std::int64_t size);

// The cheapest plan over all region shapes, swept dimensions and ways to read, in as many passes as pay. Throws
// MemoryLimitError where none fits, with the smallest `max_bytes` that works. `unavoidable_bytes` are those beside
// `max_bytes` that this smallest cap is told with.
RechunkPlan plan_rechunk(const PassProblem& problem, const RechunkOptions& options, std::int64_t unavoidable_bytes = 0);

// The cheapest single pass; nothing where none fits.
std::optional<PassPlan> plan_pass(const PassProblem& problem, const RechunkOptions& options);

// A pass with a region of so many target chunks by dimension, whatever it costs; nothing where it does not fit. For
// searches.
std::optional<PassPlan> evaluate_pass(const PassProblem& problem, const RechunkOptions& options, ReadMode mode,
                                      std::optional<std::size_t> swept, const Shape& chunks_per_region);

}  // namespace retile::files
