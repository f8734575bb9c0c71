// Transfers that run: a plan prepared for an engine, and runs on made-up data that check their results.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retile/checking/run.h"
#include "retile/engines/engine.h"
#include "retile/transfer/in_place.h"
#include "retile/transfer/plan.h"
#include "retile/transfer/tiles.h"

namespace retile::transfer {

// Prepared once, executed many times. The engine need not outlive it; with several processes all calls are collective.
class PreparedTransfer {
 public:
  // `strides` are of each array's tiles on this process's devices; none: all are packed, as they are in place. Throws
  // RuntimeError if the processes have different plans, or the engine moves one array at a time, and MemoryLimitError
  // if the plan's sources are donated and its cap is too small in place.
  PreparedTransfer(const TransferPlan& plan, Engine& engine, std::span<const BufferStrides> strides = {});

  // The devices of this process, ascending.
  const std::vector<Device>& devices() const { return devices_; }
  const Processes& processes() const { return *processes_; }
  // Figures of a run in place; nothing where sources are kept.
  const std::optional<InPlaceFigures>& in_place() const { return figures_; }

  // As in PreparedRun, from the memory of sources, whose first elements are at its start. No device stages more than
  // planned. In place, sources are donated: their memory goes back to the system as it is read, see find_released(),
  // and `before_release` is called after every round. In memory of a device, tiles are joined then, see find_joined(),
  // in memory of Engine::allocate_pages(), whose pages are to come for targets.
  using Sources = std::span<const std::span<const std::byte>>;
  void start(Sources sources, std::span<std::byte* const> targets, const std::function<void()>& before_release = {});
  bool test() { return run_->test(); }
  void wait() { run_->wait(); }
  void run(Sources sources, std::span<std::byte* const> targets, const std::function<void()>& before_release = {});
  RunStatistics statistics();
  void refuse(const std::string& why) { run_->refuse(why); }

 private:
  void find_first_elements(Sources sources);
  void join(const TransferPlan& plan, Engine& engine, Streams& streams);
  void find_pages(Sources sources, std::span<std::byte* const> targets);
  void give_back(const std::vector<PageRange>& pages);

  std::vector<Device> devices_;
  const Processes* processes_;  // lives as long as what is prepared
  std::optional<InPlaceFigures> figures_;
  InPlaceSchedule schedule_;
  // The state of joined tiles, for devices with memory of their own.
  struct Joined {
    JoinedSides sides;
    std::int64_t page = 0;  // bytes
    JoinedSchedule schedule;
    std::vector<std::int64_t> source_bytes;  // by tile of this process
    std::vector<std::int64_t> target_bytes;
  };
  std::optional<Joined> joined_;
  std::unique_ptr<PreparedRun> run_;
  std::vector<std::int64_t> most_staged_;  // by device of this process
  std::vector<const std::byte*> from_;     // first elements, of the run that is being started
  std::vector<std::vector<PageRange>> released_;
  std::vector<std::vector<PageRange>> taken_;
};

struct TransferRunOptions {
  std::uint64_t seed = 0;
  int repetitions = 1;
  ArrayContents contents = {};  // of arrays that are not made up
};

struct TransferReport : RunReport {
  std::int64_t arrays = 0;
  std::int64_t staging_bytes_max = 0;  // per device, at most what the plan says
  std::int64_t max_bytes = 0;
  std::optional<InPlaceFigures> in_place;
};

// Each process makes and checks the tiles of its own devices; the report is the same on all. In place, peaks are bytes
// of pages in memory, of sources and targets together, predicted page by page and measured after every round, and of
// what is staged. Throws RuntimeError if the machine has not the memory for it.
TransferReport run_transfer(const TransferPlan& plan, Engine& engine, const TransferRunOptions& options = {});

// One line, without its end.
std::string to_json(const TransferReport& report);

}  // namespace retile::transfer
