// Who copies what: the steps of a movement as pieces between tiles that are really there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/engines/tile_layout.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile {

// One copy from tiles to tiles. A piece is a Transfer, own parts included (`from` equals `to`).
class Stage {
 public:
  // Steps of a movement whose lists are worked out. `strides` are of all devices' tiles before and after the stage.
  Stage(const Movement& movement, StageSteps steps, BufferStrides strides);
  // No step: every device's own tile is copied as it is.
  Stage(const Placement& tiles, BufferStrides strides);

  // The movement's step that this stage ends with.
  std::size_t step() const { return step_; }
  // The tiles that are read, and the tiles that are written; one device's as they lie in memory.
  const Placement& before() const { return before_; }
  const Placement& after() const { return after_; }
  TileLayout tile_before(Device device) const { return layout_of(before_, strides_.sources, device); }
  TileLayout tile_after(Device device) const { return layout_of(after_, strides_.targets, device); }

  // The pieces that make up the device's tile after the stage, each element once.
  std::vector<Transfer> received_by(Device device) const;
  // The pieces that others read from the device's tile, and its own.
  std::vector<Transfer> sent_by(Device device) const;

 private:
  static TileLayout layout_of(const Placement& placement, const std::vector<Strides>& strides, Device device) {
    return {placement.box(device), strides.empty() ? Strides() : strides[static_cast<std::size_t>(device)]};
  }
  void list_groups(const Groups& groups);
  void list_transfers(std::vector<Transfer> transfers);

  std::size_t step_ = 0;
  Placement before_;
  Placement held_;  // after the slices: what the step's pieces are taken from
  Placement after_;
  BufferStrides strides_;
  // Either every member of a group reads from every member; devices without a group read from themselves.
  Groups groups_;
  std::vector<std::size_t> group_of_;  // by device
  // Or all pieces are listed, in order of the devices that get them.
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> first_received_;  // by device, in transfers_, and the end
  std::vector<std::size_t> sent_;            // indices of transfers_, in order of the devices that send them
  std::vector<std::size_t> first_sent_;      // by device, in sent_, and the end
};

// Works out the lists of steps that lack them. The first stage reads from sources and the last one writes to targets
// that lie as the strides of all devices say. Tiles between them are packed, with their dimensions in the order of
// their device's source: what keeps its order from end to end is never transposed. A movement without steps has no
// stages.
std::vector<Stage> make_schedule(const Movement& movement, std::int64_t element_size, const BufferStrides& strides);
inline std::vector<Stage> make_schedule(const Movement& movement) { return make_schedule(movement, 1, {}); }

}  // namespace retile
