// Who copies what: the steps of a movement as pieces between tiles that are really there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile {

// One copy from tiles to tiles. A piece is a Transfer, own parts included (`from` equals `to`).
class Stage {
 public:
  // Steps of a movement whose lists are worked out.
  Stage(const Movement& movement, StageSteps steps);

  // The movement's step that this stage ends with.
  std::size_t step() const { return step_; }
  // The tiles that are read, as they lie in memory, and the tiles that are written.
  const Placement& before() const { return before_; }
  const Placement& after() const { return after_; }

  // The pieces that make up the device's tile after the stage, each element once.
  std::vector<Transfer> received_by(Device device) const;
  // The pieces that others read from the device's tile, and its own.
  std::vector<Transfer> sent_by(Device device) const;

 private:
  void list_groups(const Groups& groups);
  void list_transfers(std::vector<Transfer> transfers);

  std::size_t step_;
  Placement before_;
  Placement held_;  // after the slices: what the step's pieces are taken from
  Placement after_;
  // Either every member of a group reads from every member; devices without a group read from themselves.
  Groups groups_;
  std::vector<std::size_t> group_of_;  // by device
  // Or all pieces are listed, in order of the devices that get them.
  std::vector<Transfer> transfers_;
  std::vector<std::size_t> first_received_;  // by device, in transfers_, and the end
  std::vector<std::size_t> sent_;            // indices of transfers_, in order of the devices that send them
  std::vector<std::size_t> first_sent_;      // by device, in sent_, and the end
};

// Works out the lists of symbolic steps. A movement without steps has no stages.
std::vector<Stage> make_schedule(const Movement& movement);

}  // namespace retile
