// Moves an array that lies in memory of the caller's own from one layout to another.
//
//   std::vector<std::span<const float>> sources = ...;  // the source tiles of this process's devices, row-major
//   std::vector<std::span<float>> targets = ...;        // memory for their target tiles
//   retile::redistribute<float>(problem, sources, targets);
//
// or, for many runs, prepared once:
//
//   retile::Redistribution<float> redistribution(problem);
//   redistribution.run(sources, targets);
//
// Tiles with padding, halos or columns first are moved as they lie (RedistributeOptions). Everything throws
// RuntimeError with a sentence where memory does not fit its tiles, before anything is moved. Under MPI: retile/mpi.h.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/plan/plan.h"
#include "retile/planner/problem.h"
#include "retile/types/element_type.h"

namespace retile {

// How a tile lies in a span of memory. All is in bytes.
struct MemoryLayout {
  std::int64_t offset = 0;  // from the start of the span to the tile's first element
  Strides strides;          // from an element to the next one, by dimension and of any sign; none: row-major, packed
};

enum class MemoryOrder { row_major, column_major };

// A tile that starts at `corner` of an array of a larger shape: with padding behind it, or a halo around it. Throws
// RuntimeError where the corner is not in that array.
MemoryLayout layout_within(const Shape& allocated, const Shape& corner, std::int64_t element_size,
                           MemoryOrder order = MemoryOrder::row_major);

// What a span must have room for, in bytes from its start.
struct TileRoom {
  std::int64_t first = 0;  // element
  std::int64_t end = 0;
  bool is_packed = true;
};

// Bytes that the memory of a device's tiles must have.
struct TileBytes {
  std::int64_t source = 0;
  std::int64_t target = 0;
};

// Layouts are those of all tiles, or one for each of this process's devices; none: row-major and packed from the start
// of the spans. Elements of a target do not share memory; those of a source may.
struct RedistributeOptions {
  std::vector<MemoryLayout> sources;
  std::vector<MemoryLayout> targets;
  Engine* engine = nullptr;  // null: threads, one for each core
};

// A redistribution of elements that only their size is known of.
class ByteRedistribution {
 public:
  // The engine need not outlive it. With several processes, making it and running it is collective, and what one
  // process is refused throws RuntimeError in all. Throws RuntimeError where the plan is wrong.
  ByteRedistribution(const Plan& plan, std::int64_t element_size, const RedistributeOptions& options = {});
  // By a plan of the default planner.
  explicit ByteRedistribution(const Problem& problem, const RedistributeOptions& options = {});

  // The devices of this process, ascending: those whose tiles it is given, in this order.
  const std::vector<Device>& devices() const { return devices_; }

  // Of the device that is the n-th of this process.
  TileBytes tile_bytes(std::size_t n) const { return {source_rooms_[n].end, target_rooms_[n].end}; }

  // A span for each device, at least as long as its tile reaches. No target overlaps another tile. Nothing but the
  // targets' elements is written.
  RunStatistics run(std::span<const std::span<const std::byte>> sources, std::span<const std::span<std::byte>> targets);

 private:
  void require_memory(std::span<const std::span<const std::byte>> sources,
                      std::span<const std::span<std::byte>> targets) const;

  std::vector<Device> devices_;
  std::vector<TileRoom> source_rooms_;
  std::vector<TileRoom> target_rooms_;
  std::unique_ptr<PreparedRun> run_;
};

// Whether a C++ type may hold a problem's elements. What problems have no name for, such as unsigned numbers,
// std::byte, half-precision classes and other structs, stands for bits: of any element that is as large.
template <typename T>
bool stands_for(ElementType type) {
  constexpr bool is_complex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
  constexpr bool is_bits = std::is_same_v<T, char> || (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) ||
                           (!std::is_arithmetic_v<T> && !is_complex);
  switch (type) {
    case ElementType::i8:
      return std::is_same_v<T, std::int8_t> || (is_bits && sizeof(T) == 1);
    case ElementType::i32:
      return std::is_same_v<T, std::int32_t> || (is_bits && sizeof(T) == 4);
    case ElementType::f32:
      return std::is_same_v<T, float> || (is_bits && sizeof(T) == 4);
    case ElementType::f64:
      return std::is_same_v<T, double> || (is_bits && sizeof(T) == 8);
    case ElementType::c64:
      return std::is_same_v<T, std::complex<float>> || (is_bits && sizeof(T) == 8);
    case ElementType::c128:
      return std::is_same_v<T, std::complex<double>> || (is_bits && sizeof(T) == 16);
    case ElementType::f16:
    case ElementType::bf16:
      return is_bits && sizeof(T) == 2;
  }
  return false;
}

// The problem. Throws RuntimeError where the type of the buffers, of this many bytes, does not stand for its elements.
const Problem& require_element_type(const Problem& problem, bool stands_for_it, std::size_t size);

// A redistribution of elements of one type, worked out once and run many times.
template <typename T>
class Redistribution {
  static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");

 public:
  // As ByteRedistribution. Throws RuntimeError where the problem's elements are not of this type.
  explicit Redistribution(const Plan& plan, const RedistributeOptions& options = {})
      : bytes_(plan, static_cast<std::int64_t>(sizeof(T)), options) {}
  explicit Redistribution(const Problem& problem, const RedistributeOptions& options = {})
      : bytes_(require_element_type(problem, stands_for<T>(problem.element_type()), sizeof(T)), options) {}

  const std::vector<Device>& devices() const { return bytes_.devices(); }

  RunStatistics run(std::span<const std::span<const T>> sources, std::span<const std::span<T>> targets) {
    std::vector<std::span<const std::byte>> from;
    std::vector<std::span<std::byte>> to;
    for (const std::span<const T> source : sources) from.push_back(std::as_bytes(source));
    for (const std::span<T> target : targets) to.push_back(std::as_writable_bytes(target));
    return bytes_.run(from, to);
  }

 private:
  ByteRedistribution bytes_;
};

// One run of a problem, or of a plan.
template <typename T, typename ProblemOrPlan>
RunStatistics redistribute(const ProblemOrPlan& problem_or_plan, std::span<const std::span<const T>> sources,
                           std::span<const std::span<T>> targets, const RedistributeOptions& options = {}) {
  return Redistribution<T>(problem_or_plan, options).run(sources, targets);
}

}  // namespace retile
