// Who copies what: the steps of a movement as pieces between tiles that are really there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "retile/engines/tile_layout.h"
#include "retile/plan/lists.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile {

// One copy from tiles to tiles. A piece is a Transfer, own parts included (`from` equals `to`). There may be one for
// each pair of devices, so they are not listed unless the plan does it: a stage takes memory per device alone, and
// PieceCursor works its pieces out.
class Stage {
 public:
  // `strides` are of all devices' tiles before and after the stage.
  Stage(const Movement& movement, StageSteps steps, BufferStrides strides, std::int64_t element_size);
  // No step: every device's own tile is copied as it is.
  Stage(const Placement& tiles, BufferStrides strides, std::int64_t element_size);

  // The movement's step that this stage ends with.
  std::size_t step() const { return step_; }
  // Where the stage is no copy: every device combines the rows of its tile into one.
  const std::optional<ReduceStep>& reduction() const { return reduction_; }
  // Elements from `first` on of a device's result, so many. No bounds are checked.
  void reduce(Device device, std::int64_t first, std::int64_t count, const std::byte* from, std::byte* to) const;
  // The tiles that are read, and the tiles that are written.
  const Placement& before() const { return before_; }
  const Placement& after() const { return after_; }
  const BufferStrides& strides() const { return strides_; }
  // What a device holds that a box lies in, as it lies in memory.
  TileLayout tile_before(Device device, const Box& box) const {
    return layout_around(before_, strides_.sources, device, box);
  }
  TileLayout tile_after(Device device, const Box& box) const {
    return layout_around(after_, strides_.targets, device, box);
  }

 private:
  friend class PieceCursor;

  TileLayout layout_around(const Placement& placement, const std::vector<Strides>& strides, Device device,
                           const Box& box) const;
  void list_groups(const Groups& groups);
  void list_transfers(std::vector<Transfer> transfers);

  std::size_t step_ = 0;
  std::optional<ReduceStep> reduction_;
  Placement before_;
  Placement held_;  // after the slices: what the step's pieces are taken from
  Placement after_;
  BufferStrides strides_;
  std::int64_t element_size_ = 1;
  // One of these has something to say; where none has, devices read from themselves.
  Groups groups_;                              // every member reads from every member
  std::vector<std::size_t> group_of_;          // by device, in groups_
  std::vector<Device> senders_;                // by device: whose tile it gets
  std::optional<BalancedTransfers> balanced_;  // an exchange that is not listed
  std::vector<Transfer> transfers_;            // an exchange that is, in order of the devices that get them
  std::vector<std::size_t> first_received_;    // by device, in transfers_, and the end
};

// Goes through the devices in ascending order. A copy goes on from the same device; the stage outlives both.
class PieceCursor {
 public:
  explicit PieceCursor(const Stage& stage) : stage_(&stage), balanced_(stage.balanced_) {}

  // Whose pieces are next; the number of devices at the end.
  Device device() const { return device_; }
  // The pieces that make up the device's tile after the stage, each element once. What is visited is there for the call
  // only.
  void next(const std::function<void(const Transfer&)>& visit);

 private:
  const Stage* stage_;
  Device device_ = 0;
  std::optional<BalancedTransfers> balanced_;
};

// Works out the lists of steps that lack them, but not those of exchanges.
Movement with_short_lists(Movement movement);

// The first stage reads from sources and the last one writes to targets that lie as the strides of all devices say.
// Tiles between them are packed, with their dimensions in the order of their device's source: what keeps its order from
// end to end is never transposed. A movement without steps has no stages.
std::vector<Stage> make_schedule(const Movement& movement, std::int64_t element_size, const BufferStrides& strides);
inline std::vector<Stage> make_schedule(const Movement& movement) { return make_schedule(movement, 1, {}); }

}  // namespace retile
