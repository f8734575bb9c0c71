// What an engine brings to a run: memory of its kind, and how pieces move in it. The frame of runs (staged_run.h) does
// the rest: schedules, scratch, accounting, checks, statistics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/engines/processes.h"
#include "retile/memory/buffer.h"
#include "retile/memory/tile_layout.h"
#include "retile/plan/executor.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"
#include "retile/schedule/streams.h"

namespace retile {

// The memory of the tiles that a stage reads.
enum class SourceMemory {
  own,      // of their process alone
  shared,   // all processes of a host see it
  donated,  // it goes back to the system round by round
};

// Pointers to the first elements of tiles: array by array, those of this process's devices in ascending order. Those of
// tiles without elements are not looked at. No target overlaps anything.
struct TilePointers {
  std::span<const std::byte* const> sources;
  std::span<std::byte* const> targets;
};

// Streams worked out for an engine: made once, run many times. With several processes every call is collective.
class PreparedStreams {
 public:
  PreparedStreams() = default;
  PreparedStreams(const PreparedStreams&) = delete;
  PreparedStreams& operator=(const PreparedStreams&) = delete;
  virtual ~PreparedStreams() = default;

  // Bytes that each device of this process gets from others.
  virtual const std::vector<std::int64_t>& received() const = 0;

  // Works out what is left for executions with such sources. Bytes that they stage, by device of this process.
  virtual std::vector<std::int64_t> make_ready(SourceMemory) { return std::vector<std::int64_t>(received().size()); }

  // `staging` is memory that allocate() gave, as large as make_ready() says. Ends when this process's targets are
  // complete and nobody reads its sources any more.
  virtual void execute(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging) = 0;

  // From donated sources, round by round, between packed tiles.
  virtual void execute_rounds(const TilePointers& tiles, std::span<std::byte> staging, const RoundDone& done) = 0;
};

// Nanoseconds of this host's steady clock.
inline std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What an engine's runs share. They outlive the engine.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual const char* name() const = 0;

  // --- Devices and processes; see Engine.

  virtual std::vector<Device> devices(std::int64_t device_count) const = 0;
  virtual std::vector<std::int64_t> hosts(std::int64_t) const { return {}; }
  virtual std::int64_t devices_on_machine(std::int64_t device_count) const { return device_count; }
  // Whether stages between hosts go in phases: what crosses, then what is passed on.
  virtual bool passes_on_in_hosts() const { return true; }
  virtual const Processes& processes() const { return one_process(); }
  // Held by the run that goes; others wait for it.
  virtual std::unique_lock<std::mutex> take_turn() { return {}; }
  // "rank 3", for messages about failures; empty if there is but one process.
  virtual std::string where() const { return {}; }
  // Collective: throws RuntimeError in all processes if they were given different movements, or one of them wrong
  // strides. The strides of all devices, those of `own` included.
  virtual BufferStrides require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own) = 0;
  // From the first process's start, see now(), to the last one's end. Collective.
  virtual double seconds_since(std::int64_t start) const = 0;

  // --- Memory.

  virtual EngineMemory memory() const { return {}; }
  // See Engine.
  virtual Executor executor(TileOwner) const {
    Executor executor;
    executor.memory = memory();
    return executor;
  }
  virtual std::int64_t memory_limit() const { return no_memory_limit; }  // bytes of tiles per device
  virtual std::int64_t listed_bytes() const = 0;                         // at most, of a run's lists of pieces
  // Throws RuntimeError if there is none.
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual bool is_shared(const std::byte*) const { return true; }
  // Whole pages of a source: the system has them back at once. Throws RuntimeError if it does not take them.
  virtual void give_back(const std::byte* pages, std::size_t bytes) = 0;

  // --- Work.

  // Calls task(0) to task(count - 1) in any order, at once if the engine can.
  virtual void for_each(std::size_t count, const std::function<void(std::size_t)>& task) = 0;
  virtual std::unique_ptr<PreparedStreams> prepare(Streams streams) = 0;
};

// Private memory of this process goes back to the system.
void give_back_private(const std::byte* pages, std::size_t bytes);

}  // namespace retile
