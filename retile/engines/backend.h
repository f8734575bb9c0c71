// An engine's part in a run: memory of its kind, and how pieces move in it. The frame of runs (staged_run.h) does
// the rest: schedules, scratch, accounting, checks, statistics.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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

// Work that goes on piece by piece, as other processes do their part.
class Work {
 public:
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  virtual ~Work() = default;

  // Does what can be done now. Returns false if that was nothing.
  virtual bool advance() = 0;
  virtual bool is_done() const = 0;
};

// Streams worked out for an engine: made once, run many times, one execution after the other. It is done when this
// process's targets are complete and nobody reads its sources any more, see also Backend::queued(). With several
// processes, only making them is collective.
class PreparedStreams : public Work {
 public:
  // Bytes that each device of this process gets from others.
  virtual const std::vector<std::int64_t>& received() const = 0;

  // Bytes that an execution with such sources stages, by device of this process.
  virtual const std::vector<std::int64_t>& staging(SourceMemory sources) = 0;

  // Begins an execution between tiles whose lists outlive it. `staging` is memory that allocate() gave, as large as
  // staging() says.
  virtual void start(const TilePointers& tiles, SourceMemory sources, std::span<std::byte> staging) = 0;
  // From donated sources, round by round, between packed tiles.
  virtual void start_rounds(const TilePointers& tiles, std::span<std::byte> staging, const RoundDone& done) = 0;

  // Whether other processes may still look at what the streams keep, or at the staging, after the execution.
  virtual bool is_staging_read() const { return false; }
};

// The parts of a sum in one device's tile: consecutive rows of `row_elements`, which are combined into one row.
struct PartsToCombine {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
};

// Nanoseconds of this host's steady clock.
inline std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// State that the runs of an engine share. Runs outlive the engine.
class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual const char* name() const = 0;

  // --- Devices and processes; see Engine. One process with all devices unless a backend says otherwise.

  virtual std::vector<Device> devices(std::int64_t device_count) const { return all_devices(device_count); }
  virtual std::vector<std::int64_t> hosts(std::int64_t) const { return {}; }
  virtual std::int64_t devices_on_machine(std::int64_t device_count) const { return device_count; }
  // Whether stages between hosts go in phases: what crosses, then what is passed on.
  virtual bool passes_on_in_hosts() const { return true; }
  // The rate of the link out of each device's host; empty where links are alike, or unknown.
  virtual std::vector<double> link_rates(std::int64_t /*device_count*/) const { return {}; }
  virtual const Processes& processes() const { return one_process(); }
  // The lock of the run that executes; other runs wait for it.
  virtual std::unique_lock<std::mutex> take_turn() { return {}; }

  // How executions go on after their start.
  enum class Progress {
    in_a_thread,    // of their own
    when_advanced,  // by their caller
    at_start,       // not at all: they are done when they have started
  };
  virtual Progress progress() const = 0;
  // Advances this work until it is done, and other work that has begun beside it.
  virtual void finish(Work& work) {
    while (!work.is_done()) work.advance();
  }
  // Work that goes on when any work of the backend's does, from its beginning to its end.
  virtual void begin(Work& /*work*/) {}
  virtual void end(Work& /*work*/) {}
  // Does what can be done of the begun work now. Returns false if that was nothing.
  virtual bool advance_begun() { return false; }

  // Work that is done when all that now stands in the device's queue is. On devices with a queue that keeps the order,
  // streams count as done, and parts as combined, once they stand in it. Null: there is nothing to wait for.
  virtual std::unique_ptr<Work> queued() { return nullptr; }
  // Whether an execution may start when the one before it stands in the queue.
  virtual bool may_queue_executions() const { return false; }

  // Tells the processes that wait for this one that it has failed, and why. Takes no memory. Nothing runs after that.
  virtual void tell_failure(std::string_view /*text*/) noexcept {}
  // The failure of any process of the engine that this process knows of; null if there is none.
  virtual const char* failure() const { return nullptr; }
  // Throws RuntimeError if a process has told its failure.
  virtual void look_for_failure() {}
  // "rank 3", for messages about failures; empty if there is but one process.
  virtual std::string where() const { return {}; }
  // Collective: throws RuntimeError in all processes if they were given different movements, or one of them wrong
  // strides. The strides of all devices, those of `own` included.
  virtual BufferStrides require_same(const Movement& movement, std::int64_t element_size, const BufferStrides& own);
  // Seconds from the first process's start to the last one's end, see now(). Collective.
  virtual double seconds_between(std::int64_t start, std::int64_t end) const {
    return static_cast<double>(end - start) * 1e-9;
  }

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
  // The memory of a device, where tiles do not lie in the host's; see Engine.
  class DeviceMemory {
   public:
    virtual ~DeviceMemory() = default;
    virtual void load(const std::byte* tile, std::span<std::byte> to) const = 0;
    virtual void store(std::span<const std::byte> from, std::byte* tile) const = 0;
    virtual void clear(std::span<std::byte> tile) const = 0;
    virtual std::optional<std::int64_t> available() const = 0;
    // See Engine.
    virtual Buffer allocate_pages(std::size_t bytes, Engine::Pages pages) const = 0;
    virtual std::int64_t page_bytes() const = 0;
    virtual std::int64_t resident_bytes(const Buffer& pages) const = 0;
  };
  // Null where tiles lie in the host's memory.
  virtual const DeviceMemory* device_memory() const { return nullptr; }
  // Frees streams and their staging when nobody reads them any more.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who has to wait keeps them
  virtual void retire(std::shared_ptr<PreparedStreams> /*streams*/, Buffer /*staging*/) {}
  virtual bool is_shared(const std::byte*) const { return true; }
  // Whole pages of a source: the system has them back at once. Throws RuntimeError if it does not take them.
  virtual void give_back(const std::byte* pages, std::size_t bytes) = 0;
  // Whole pages of a target, before anything of them is written.
  virtual void take(const std::byte* /*pages*/, std::size_t /*bytes*/) {}

  // --- Work.

  // Calls task(0) to task(count - 1) in any order, at once if the engine can.
  virtual void for_each(std::size_t count, const std::function<void(std::size_t)>& task) = 0;
  // Combines the parts that tiles hold, each as combine_rows() does; ends when that is done, see queued().
  virtual void combine(const ReduceStep& reduce, std::span<const PartsToCombine> tiles);
  // See Engine.
  virtual std::vector<bool> find_staged(const Streams& streams) const {
    return std::vector<bool>(streams.streams.size());
  }
  virtual std::shared_ptr<PreparedStreams> prepare(Streams streams) = 0;
};

// Private memory of this process goes back to the system.
void give_back_private(const std::byte* pages, std::size_t bytes);

}  // namespace retile
