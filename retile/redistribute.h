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
// or, while the program computes something else:
//
//   redistribution.start(sources, targets);
//   ...
//   redistribution.wait();
//
// From a layout with ghost zones to itself, ghost zones are refreshed: sources and targets may be the same memory.
// Tiles with padding, halos or columns first are moved as they lie (RedistributeOptions). Everything throws
// RuntimeError with a sentence where memory does not fit its tiles, before anything is moved. Under MPI: retile/mpi.h.
// Several arrays at once: retile/transfer.h.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

// The part of a span that a tile takes, in bytes from the start of the span.
struct TileRoom {
  std::int64_t first = 0;  // element
  std::int64_t end = 0;
  bool is_packed = true;
  bool may_be_target = false;  // of a source: the same memory may be its device's target
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

// A redistribution of elements of which only the size is known.
class ByteRedistribution {
 public:
  // The engine need not outlive it. With several processes, making it is collective, and what one process is refused
  // throws in all. Throws RuntimeError where the plan is wrong.
  ByteRedistribution(const Plan& plan, std::int64_t element_size, const RedistributeOptions& options = {});
  // Uses a plan of the default planner. What `require` throws in one process is thrown in all.
  explicit ByteRedistribution(const Problem& problem, const RedistributeOptions& options = {},
                              const std::function<void()>& require = {});

  // The devices of this process, ascending: those whose tiles it is given, in this order.
  const std::vector<Device>& devices() const { return devices_; }

  // Bytes of source and target of the n-th device of this process.
  TileBytes tile_bytes(std::size_t n) const { return {source_rooms_[n].end, target_rooms_[n].end}; }

  // Moves the tiles. A span for each device, at least as long as its tile reaches. No target overlaps another tile,
  // but a device's source may be its target where source and target are one layout with ghost zones and the plan has
  // one step: a run writes the ghost zones alone, and nobody reads them.
  // Nothing but the targets' elements is written. With several processes, each runs equally often; a run makes no
  // collective call, and its processes wait only for those whose data they need. Where one cannot run, those that wait
  // for it throw as well, and nothing that shares its engine can run any more.
  void run(std::span<const std::span<const std::byte>> sources, std::span<const std::span<std::byte>> targets);

  // Runs in the background: start(), then wait(), or test() until it says that all is done. Memory is left alone
  // in between. On threads the run goes by itself; between processes it goes on in test() and wait(), of this or of
  // another run of the same engine. Any number of redistributions may be under way at once, each with one run.
  void start(std::span<const std::span<const std::byte>> sources, std::span<const std::span<std::byte>> targets);
  bool test() { return run_->test(); }
  void wait() { run_->wait(); }

  // In place of run() or start(), for a process that cannot make the call: those that wait for it throw this sentence.
  void refuse(const std::string& why) { run_->refuse(why); }

  // Totals of the last run over all processes. Collective.
  RunStatistics statistics() { return run_->statistics(); }

  // Checks memory as run() does, but collectively: where memory of one process is wrong, RuntimeError is thrown in all,
  // and all can go on.
  void check(std::span<const std::span<const std::byte>> sources, std::span<const std::span<std::byte>> targets) const;

 private:
  // `find_plan` may throw.
  void prepare(const std::function<const Plan&()>& find_plan, std::int64_t element_size, Engine& engine,
               const RedistributeOptions& options);
  void require_memory(std::span<const std::span<const std::byte>> sources,
                      std::span<const std::span<std::byte>> targets) const;

  // The tiles' first elements, in from_ and to_. Throws RuntimeError where there is not memory for them.
  void find_tiles(std::span<const std::span<const std::byte>> sources, std::span<const std::span<std::byte>> targets);

  std::vector<Device> devices_;
  std::vector<TileRoom> source_rooms_;
  std::vector<TileRoom> target_rooms_;
  const Processes* processes_ = nullptr;  // live as long as the run
  std::unique_ptr<PreparedRun> run_;
  std::vector<const std::byte*> from_;  // of the run that is being started
  std::vector<std::byte*> to_;
};

// The kind of numbers that a C++ type holds; nothing where it stands for bits: unsigned numbers, char, std::byte,
// half-precision classes and other structs.
template <typename T>
constexpr std::optional<NumberKind> find_number_kind() {
  if (std::is_same_v<T, bool>) return NumberKind::boolean;
  if (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) return NumberKind::complex;
  if (std::is_floating_point_v<T>) return NumberKind::floating;
  if (std::is_integral_v<T> && std::is_signed_v<T> && !std::is_same_v<T, char>) return NumberKind::signed_integer;
  return std::nullopt;
}

// Whether a C++ type may hold a problem's elements. A type that stands for bits holds any element of its size.
template <typename T>
bool stands_for(ElementType type) {
  return bytes_of(type) == static_cast<std::int64_t>(sizeof(T)) &&
         find_number_kind<T>().value_or(kind_of(type)) == kind_of(type);
}

// Throws RuntimeError where the type of the buffers, of this many bytes, does not stand for the problem's elements.
void require_element_type(const Problem& problem, bool stands_for_it, std::size_t size);

// A redistribution of elements of one type, prepared once and run many times; see ByteRedistribution.
template <typename T>
class Redistribution {
  static_assert(std::is_trivially_copyable_v<T>, "elements are moved as bytes");

 public:
  using Sources = std::span<const std::span<const T>>;
  using Targets = std::span<const std::span<T>>;

  explicit Redistribution(const Plan& plan, const RedistributeOptions& options = {})
      : bytes_(plan, static_cast<std::int64_t>(sizeof(T)), options) {}
  // Throws RuntimeError where the problem's elements are not of this type.
  explicit Redistribution(const Problem& problem, const RedistributeOptions& options = {})
      : bytes_(problem, options,
               [&] { require_element_type(problem, stands_for<T>(problem.element_type()), sizeof(T)); }) {}

  const std::vector<Device>& devices() const { return bytes_.devices(); }

  void run(Sources sources, Targets targets) { bytes_.run(bytes_of_sources(sources), bytes_of_targets(targets)); }
  void start(Sources sources, Targets targets) { bytes_.start(bytes_of_sources(sources), bytes_of_targets(targets)); }
  bool test() { return bytes_.test(); }
  void wait() { bytes_.wait(); }
  RunStatistics statistics() { return bytes_.statistics(); }
  void check(Sources sources, Targets targets) { bytes_.check(bytes_of_sources(sources), bytes_of_targets(targets)); }

 private:
  // Lists that are used again from run to run.
  const std::vector<std::span<const std::byte>>& bytes_of_sources(Sources sources) {
    from_.clear();
    for (const std::span<const T> source : sources) from_.push_back(std::as_bytes(source));
    return from_;
  }
  const std::vector<std::span<std::byte>>& bytes_of_targets(Targets targets) {
    to_.clear();
    for (const std::span<T> target : targets) to_.push_back(std::as_writable_bytes(target));
    return to_;
  }

  ByteRedistribution bytes_;
  std::vector<std::span<const std::byte>> from_;
  std::vector<std::span<std::byte>> to_;
};

// One run of a problem, or of a plan. Collective: what memory of one process does not allow throws in all.
template <typename T, typename ProblemOrPlan>
RunStatistics redistribute(const ProblemOrPlan& problem_or_plan, std::span<const std::span<const T>> sources,
                           std::span<const std::span<T>> targets, const RedistributeOptions& options = {}) {
  Redistribution<T> redistribution(problem_or_plan, options);
  redistribution.check(sources, targets);
  redistribution.run(sources, targets);
  return redistribution.statistics();
}

}  // namespace retile
