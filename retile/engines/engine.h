// Engines move tiles. One interface serves tiles in one process and tiles spread over many processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retile/engines/processes.h"
#include "retile/memory/tile.h"
#include "retile/memory/tile_layout.h"
#include "retile/plan/executor.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile {

// Figures of one execution, over all processes. Bytes are per device.
struct RunStatistics {
  // The most that any device of any process had.
  std::int64_t received_max = 0;    // own parts not counted
  std::int64_t peak_predicted = 0;  // tiles alive at once, plus staging
  std::int64_t peak_measured = 0;
  double seconds = 0;  // from the first process's start to the last one's end
  std::int64_t staging_max = 0;
  // One entry for each device of this process; empty if the engine does not measure it.
  std::vector<std::int64_t> received;
  std::vector<std::vector<std::int64_t>> staging;  // by stage, too: what one staged has gone when the next one starts
};

// Called after a round, when nothing of it is read any more and before anything of the next one is written.
using RoundDone = std::function<void(std::int64_t round)>;

// A run worked out for an engine: made once, executed many times, one execution after the other. With several
// processes, all of them prepare the same runs in the same order and execute each of them equally often. Only what says
// so is collective: a process that executes a run waits for others if it needs their data, and for nothing else.
//
// A failed execution throws RuntimeError in its process and in every process that waits for it. No run of the engine
// goes on after that.
class PreparedRun {
 public:
  PreparedRun() = default;
  PreparedRun(const PreparedRun&) = delete;
  PreparedRun& operator=(const PreparedRun&) = delete;
  virtual ~PreparedRun() = default;

  // Starts an execution, which goes on while the caller computes: by itself on threads, and in test(), wait() and calls
  // of the engine's other runs on ranks. Buffers stay their owner's, and are left alone until the execution is done.
  // Array by array, the entry of each of this process's devices leads to the first element that is read of its source,
  // or written of its target. They lie as the run was prepared for, no two overlap, and nothing but the elements of
  // targets is written. The peak counts these elements, not what lies between them. Throws RuntimeError if there is not
  // a buffer for each tile, or the execution before is not done.
  virtual void start(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
    run(sources, targets);
  }
  // Whether the execution is done: this process's targets are complete, and nobody reads its sources any more.
  virtual bool test() { return true; }
  // Returns when the execution is done; at once if none was started.
  virtual void wait() {}
  // start() and wait().
  virtual void run(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) {
    last_ = execute(sources, targets);
  }
  // Figures of the last execution. Collective.
  virtual RunStatistics statistics() { return last_; }
  // run() and statistics(). Collective.
  virtual RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) = 0;

  // The tiles of a movement are donated: freed or reused as the run goes, and replaced by those of its target. Throws
  // RuntimeError if they are not the slices that the movement starts from, or the run was prepared for buffers that are
  // not packed. Tiles are lost if a run fails later. Collective.
  virtual RunStatistics execute(Tiles& tiles) = 0;

  // The sources of a transfer are donated, packed, and go back to the system round by round: `done` says when, and
  // give_back() does it. Throws RuntimeError if the engine does not tell rounds apart.
  virtual void start_in_place(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                              const RoundDone& done);
  // Returns whole pages of a source to the system at once. Throws RuntimeError if the system refuses.
  virtual void give_back(const std::byte* pages, std::size_t bytes);
  // Gets memory for whole pages of a target before they are written. Throws RuntimeError if there is none.
  virtual void take(const std::byte* /*pages*/, std::size_t /*bytes*/) {}

  // For a process that cannot execute the run as the others do: tells them why, so that none waits for it.
  virtual void refuse(const std::string& /*why*/) {}

  // Executions keep their scratch and staging for the next one. This frees them, until there is one.
  virtual void free_scratch() {}

 private:
  RunStatistics last_;  // of engines that are done when they have started
};

struct Streams;  // schedule/streams.h

class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual const char* name() const = 0;

  // The devices, out of this many, whose tiles live in this process; ascending. Throws RuntimeError where the engine
  // cannot have so many.
  virtual std::vector<Device> devices(std::int64_t device_count) const = 0;

  // A number by device that devices of one host have in common; none: all are on one host.
  virtual std::vector<std::int64_t> hosts(std::int64_t) const { return {}; }

  // The number of devices, out of `device_count`, that share this machine's memory.
  virtual std::int64_t devices_on_machine(std::int64_t device_count) const { return device_count; }

  // Memory for a tile of this process's, of the kind that the engine moves fastest. Any other kind does as well. Throws
  // RuntimeError where there is none.
  virtual Buffer allocate(std::size_t bytes) { return Buffer(bytes); }

  // Memory for transfers in place: its pages come and go while its addresses stay. Pages to come are there when the
  // process, or a run in place, writes to them. Throws RuntimeError where there is no memory.
  enum class Pages { there, to_come };
  virtual Buffer allocate_pages(std::size_t bytes, Pages pages);
  virtual std::int64_t page_bytes() const { return retile::page_bytes(); }
  // Bytes of its pages that are there.
  virtual std::int64_t resident_bytes(const Buffer& pages) const;

  // Whether this process reads and writes tiles by itself. Otherwise they lie in memory of a device, load() and store()
  // copy between that and the host's, and runs take no other kind.
  virtual bool has_host_memory() const { return true; }
  virtual void load(const std::byte* tile, std::span<std::byte> to) const;
  virtual void store(std::span<const std::byte> from, std::byte* tile) const;
  // Sets all bytes of the tile to 0.
  virtual void clear(std::span<std::byte> tile) const;
  // Bytes that are free for tiles; nothing where that is not known.
  virtual std::optional<std::int64_t> available_memory() const;

  // A movement that find_faults() finds no fault in, between buffers that lie as the strides of this process's devices
  // say. Throws RuntimeError where these are wrong (see require_strides()).
  virtual std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                               const BufferStrides& strides) = 0;
  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size) {
    return prepare(movement, element_size, {});
  }

  // Many arrays at once: from their sources to their targets, then from targets to targets, phase by phase. Throws
  // RuntimeError if the engine moves one array at a time.
  virtual std::unique_ptr<PreparedRun> prepare_transfer(std::vector<Streams> phases);

  // Whether this process stages a stream where streams go in planned rounds from donated sources: by stream.
  virtual std::vector<bool> find_staged(const Streams& streams) const;

  // Calls task(0) to task(count - 1) in any order, at once if the engine can.
  virtual void for_each(std::size_t count, const std::function<void(std::size_t)>& task);

  // The memory that runs take beside the tiles of source and target.
  virtual EngineMemory memory() const { return {}; }

  // The properties that plans are chosen by, for tiles from allocate() or in the caller's own memory.
  virtual Executor executor(TileOwner) const {
    Executor executor;
    executor.memory = memory();
    return executor;
  }

  // The most bytes per device that a run of the movement takes. Throws RuntimeError where they do not fit in 63 bits.
  std::int64_t predict_peak_bytes(const Movement& movement, std::int64_t element_size, TileUse use) const {
    return retile::predict_peak_bytes(movement, element_size, use, memory());
  }

  // The processes that the devices are divided among.
  virtual const Processes& processes() const { return one_process(); }
};

// The devices 0 to count - 1: those of an engine with one process.
std::vector<Device> all_devices(std::int64_t count);

// The box that a donated tile of the device has; none (of rank 0) where it holds several.
Box box_of_tile(const Placement& placement, Device device);

// Checks made before each execution: other tiles or fewer buffers would be read past their ends. `devices` are those of
// this process. Throw RuntimeError.
void require_tiles(const Tiles& tiles, const Placement& start, std::span<const Device> devices,
                   std::int64_t element_size, const BufferStrides& strides);
void require_buffers(std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                     std::span<const Device> devices);

}  // namespace retile
