// Copies of boxes, cut into chunks for blocks of GPU threads. What one thread copies of a chunk depends on its number
// alone: no thread talks to another. So the same functions run in kernels and, thread by thread, in ordinary tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define RETILE_BOTH __host__ __device__ __forceinline__
#define RETILE_UNROLL _Pragma("unroll")
#define RETILE_NO_UNROLL _Pragma("unroll 1")
#else
#define RETILE_BOTH inline
#define RETILE_UNROLL
#define RETILE_NO_UNROLL
#endif

namespace retile::cuda {

constexpr int most_loops = 8;
constexpr int unit_kinds = 5;  // 1, 2, 4, 8 and 16 bytes
constexpr std::uint32_t block_threads = 256;
constexpr std::uint32_t chunk_bytes = 32 << 10;
// Loads of a thread before its first store: many where vectors are aligned, few and more threads where they are not.
constexpr std::size_t aligned_in_flight = 8;
constexpr std::size_t unaligned_in_flight = 4;
// Runs from these lengths on are copied in vectors whatever their alignment: aligned loads, shifted. Shorter ones go in
// units that both sides are aligned to, which pays for longer runs if these are of 8 bytes.
constexpr std::uint32_t least_shifted_bytes = 96;
constexpr std::uint32_t least_shifted_words = 1024;

// Division of numbers below 2^31 by a constant: a multiplication and a shift (Granlund and Montgomery, 1994).
struct Divisor {
  std::uint32_t value = 1;
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  RETILE_BOTH std::uint32_t quotient(std::uint32_t number) const {
    const std::uint64_t product = static_cast<std::uint64_t>(number) * multiplier;
    return static_cast<std::uint32_t>(((product >> 32U) + number) >> shift);
  }
};

Divisor divide_by(std::uint32_t value);

// How many threads share a run in units of one size, as a power of two, and how many units each of them has at most.
struct Lanes {
  std::uint32_t log_count = 0;
  std::uint32_t units_each = 1;
};

// A box as runs of bytes that lie together on both sides, and the loops over them, innermost first. Strides are in
// bytes and of any sign.
struct ChunkShape {
  std::uint32_t loops = 0;
  std::uint32_t runs = 1;        // below 2^30
  std::uint32_t chunk_runs = 1;  // whole runs in a chunk
  std::uint32_t run_chunks = 1;  // chunks in a run; one of these two is 1
  std::uint64_t run_bytes = 0;
  std::uint32_t alignment = 16;  // that all strides and the length of runs have, at most 16
  Divisor counts[most_loops];
  std::int64_t from_strides[most_loops] = {};
  std::int64_t to_strides[most_loops] = {};
  Divisor chunks_of_run;
  Lanes lanes[unit_kinds];  // by the logarithm of the unit; of a chunk's part of a run
  Lanes shifted_lanes;
};

// A box of one tile to a box of another.
struct ChunkPiece {
  std::uint32_t shape = 0;
  std::uint32_t from_tile = 0;
  std::uint32_t to_tile = 0;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};

// The work of a block of threads.
struct Chunk {
  std::uint32_t piece = 0;
  std::uint32_t number = 0;  // among the chunks of the piece
};

// --- What one thread does.

struct alignas(16) Vector {
  std::uint64_t low;
  std::uint64_t high;
};

template <typename Unit>
RETILE_BOTH Unit load(const std::byte* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Unit*>(from);
#else
  Unit unit{};
  std::memcpy(&unit, from, sizeof unit);
  return unit;
#endif
}

template <typename Unit>
RETILE_BOTH void store(std::byte* to, const Unit& unit) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Unit*>(to) = unit;
#else
  std::memcpy(to, &unit, sizeof unit);
#endif
}

RETILE_BOTH std::uint64_t address_bits(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address); }

// The logarithm of the largest unit, at most 16 bytes, that the number is a multiple of.
RETILE_BOTH std::uint32_t log_unit(std::uint64_t bits) {
  std::uint32_t log = 0;
  while (log < 4 && (bits >> log & 1U) == 0) ++log;
  return log;
}

struct RunPlace {
  const std::byte* from;
  std::byte* to;
};

// Bytes from the box's first element to a run.
struct RunOffsets {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

RETILE_BOTH RunOffsets offsets_of_run(const ChunkShape& shape, std::uint32_t run) {
  RunOffsets offsets;
  std::uint32_t rest = run;
  for (std::uint32_t i = 0; i < shape.loops; ++i) {
    const bool is_last = i + 1 == shape.loops;
    const std::uint32_t quotient = is_last ? 0 : shape.counts[i].quotient(rest);
    const std::int64_t index = rest - quotient * shape.counts[i].value;
    offsets.from += index * shape.from_strides[i];
    offsets.to += index * shape.to_strides[i];
    rest = quotient;
  }
  return offsets;
}

// Equal parts of runs, one after the other: `bytes` of each from `first_run` on.
struct ChunkRuns {
  const ChunkShape& shape;
  RunPlace first;  // of the box, moved to where the part of a run begins
  std::uint32_t first_run;
  std::uint32_t runs;
  std::uint32_t bytes;

  RETILE_BOTH RunPlace place(std::uint32_t run) const {
    const RunOffsets offsets = offsets_of_run(shape, first_run + run);
    return {first.from + offsets.from, first.to + offsets.to};
  }
};

// In units that both sides are aligned to: lanes of neighbouring threads share a run.
template <typename Unit, std::size_t in_flight>
RETILE_BOTH void copy_units(const ChunkRuns& chunk, Lanes lanes, std::uint32_t thread, std::uint32_t threads) {
  const std::uint32_t units = chunk.bytes / sizeof(Unit);
  const std::uint32_t lane = thread & ((1U << lanes.log_count) - 1);
  const std::uint32_t step = threads >> lanes.log_count;
  std::uint32_t run = thread >> lanes.log_count;
  if (run >= chunk.runs) return;
  RunPlace place = chunk.place(run);
  std::uint32_t number = 0;  // of this lane's units in the run
  while (run < chunk.runs) {
    Unit values[in_flight];
    std::byte* targets[in_flight];
    RETILE_UNROLL
    for (std::size_t i = 0; i < in_flight; ++i) {
      const std::uint32_t unit = (number << lanes.log_count) + lane;
      const bool is_there = run < chunk.runs && unit < units;
      targets[i] = is_there ? place.to + unit * sizeof(Unit) : nullptr;
      if (is_there) values[i] = load<Unit>(place.from + unit * sizeof(Unit));
      if (++number == lanes.units_each) {
        number = 0;
        run += step;
        if (run < chunk.runs) place = chunk.place(run);
      }
    }
    RETILE_UNROLL
    for (std::size_t i = 0; i < in_flight; ++i) {
      if (targets[i] != nullptr) store(targets[i], values[i]);
    }
  }
}

// The vector of 16 bytes from a byte address, made of two aligned ones.
RETILE_BOTH Vector shifted(const Vector& first, const Vector& second, std::uint32_t bytes) {
  const std::uint32_t bits = 8 * (bytes & 7U);
  const std::uint64_t a = bytes < 8 ? first.low : first.high;
  const std::uint64_t b = bytes < 8 ? first.high : second.low;
  const std::uint64_t c = bytes < 8 ? second.low : second.high;
  if (bits == 0) return {a, b};
  return {a >> bits | b << (64 - bits), b >> bits | c << (64 - bits)};
}

// A part of a run whose vectors are aligned in the target.
struct ShiftedRun {
  RunPlace place;
  std::uint32_t bytes;
  std::uint32_t head;     // bytes before the first vector
  std::uint32_t vectors;  // whole ones

  RETILE_BOTH ShiftedRun(const RunPlace& run, std::uint32_t run_bytes) : place(run), bytes(run_bytes) {
    const auto misaligned = static_cast<std::uint32_t>(address_bits(run.to) & 15U);
    head = misaligned == 0 ? 0 : 16 - misaligned;
    if (head > bytes) head = bytes;
    vectors = (bytes - head) / 16;
  }

  // Only memory of the run is read, also where aligned vectors reach beyond it.
  RETILE_BOTH Vector vector(std::uint32_t number) const {
    const std::uint32_t begin = head + 16 * number;
    const std::byte* const from = place.from + begin;
    const auto shift = static_cast<std::uint32_t>(address_bits(from) & 15U);
    if (shift == 0) return load<Vector>(from);
    if (begin >= shift && begin - shift + 32 <= bytes) {
      return shifted(load<Vector>(from - shift), load<Vector>(from - shift + 16), shift);
    }
    Vector slow{0, 0};
    RETILE_NO_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) {
      slow.low |= static_cast<std::uint64_t>(load<std::uint8_t>(from + i)) << (8 * i);
      slow.high |= static_cast<std::uint64_t>(load<std::uint8_t>(from + 8 + i)) << (8 * i);
    }
    return slow;
  }
};

template <std::size_t in_flight>
RETILE_BOTH void copy_shifted(const ChunkRuns& chunk, Lanes lanes, std::uint32_t thread, std::uint32_t threads) {
  const std::uint32_t lane = thread & ((1U << lanes.log_count) - 1);
  const std::uint32_t step = threads >> lanes.log_count;
  std::uint32_t number = 0;
  std::uint32_t run = thread >> lanes.log_count;
  if (run >= chunk.runs) return;
  ShiftedRun place(chunk.place(run), chunk.bytes);
  while (run < chunk.runs) {
    Vector values[in_flight];
    std::byte* targets[in_flight];
    RETILE_UNROLL
    for (std::size_t i = 0; i < in_flight; ++i) {
      const std::uint32_t vector = (number << lanes.log_count) + lane;
      const bool is_there = run < chunk.runs && vector < place.vectors;
      targets[i] = is_there ? place.place.to + place.head + std::size_t{16} * vector : nullptr;
      if (is_there) values[i] = place.vector(vector);
      // The bytes around the vectors, at most 30.
      if (run < chunk.runs && number == 0) {
        const std::uint32_t tail = place.head + 16 * place.vectors;
        const std::uint32_t around = place.head + (place.bytes - tail);
        RETILE_NO_UNROLL
        for (std::uint32_t j = lane; j < around; j += 1U << lanes.log_count) {
          const std::uint32_t byte = j < place.head ? j : tail + (j - place.head);
          store(place.place.to + byte, load<std::uint8_t>(place.place.from + byte));
        }
      }
      if (++number == lanes.units_each) {
        number = 0;
        run += step;
        if (run < chunk.runs) place = ShiftedRun(chunk.place(run), chunk.bytes);
      }
    }
    RETILE_UNROLL
    for (std::size_t i = 0; i < in_flight; ++i) {
      if (targets[i] != nullptr) store(targets[i], values[i]);
    }
  }
}

// The part of a box that a chunk covers: whole runs, or a part of one.
struct ChunkPart {
  std::uint32_t first_run = 0;
  std::uint32_t runs = 1;
  std::uint64_t begin = 0;  // in a run
  std::uint64_t bytes = 0;  // of a run
};

RETILE_BOTH ChunkPart part_of_chunk(const ChunkShape& shape, std::uint32_t number) {
  ChunkPart part;
  part.bytes = shape.run_bytes;
  if (shape.run_chunks > 1) {
    part.first_run = shape.chunks_of_run.quotient(number);
    part.begin = static_cast<std::uint64_t>(number - part.first_run * shape.run_chunks) * chunk_bytes;
    part.bytes = part.bytes - part.begin < chunk_bytes ? part.bytes - part.begin : chunk_bytes;
  } else {
    part.first_run = number * shape.chunk_runs;
    part.runs = shape.runs - part.first_run < shape.chunk_runs ? shape.runs - part.first_run : shape.chunk_runs;
  }
  return part;
}

// The thread's part of a chunk of a box that begins at `first`.
template <std::size_t in_flight>
RETILE_BOTH void copy_chunk(const ChunkShape& shape, RunPlace first, std::uint32_t number, std::uint32_t thread,
                            std::uint32_t threads) {
  const ChunkPart part = part_of_chunk(shape, number);
  first.from += part.begin;
  first.to += part.begin;
  const ChunkRuns runs{shape, first, part.first_run, part.runs, static_cast<std::uint32_t>(part.bytes)};
  const std::uint32_t log = log_unit(address_bits(first.from) | address_bits(first.to) | shape.alignment | part.bytes);
  if (log < 4 && part.bytes >= (log == 3 ? least_shifted_words : least_shifted_bytes)) {
    return copy_shifted<in_flight / 2>(runs, shape.shifted_lanes, thread, threads);
  }
  switch (log) {
    case 4:
      return copy_units<Vector, in_flight>(runs, shape.lanes[4], thread, threads);
    case 3:
      return copy_units<std::uint64_t, in_flight>(runs, shape.lanes[3], thread, threads);
    case 2:
      return copy_units<std::uint32_t, in_flight>(runs, shape.lanes[2], thread, threads);
    case 1:
      return copy_units<std::uint16_t, in_flight>(runs, shape.lanes[1], thread, threads);
    default:
      return copy_units<std::uint8_t, in_flight>(runs, shape.lanes[0], thread, threads);
  }
}

}  // namespace retile::cuda
