// Which devices communicate: groups, pairs and transfers worked out from the boxes before and after a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "retile/grids/tile_table.h"
#include "retile/plan/plan.h"

namespace retile {

// The devices that gather each other's boxes: the tiles of `before` in one tile of `after` once each,
// replicas matched in order of their numbers. In the order of the plan format, see order_groups().
Groups allgather_groups(const TileTable& before, const TileTable& after);

// Groups whose boxes before make up a box that their boxes after make up too. Where replicas leave a
// choice, any even dealing has such groups (König's theorem), and they are found by matching.
Groups alltoall_groups(const TileTable& before, const TileTable& after);

// The sets of devices that the transfers connect.
Groups exchange_groups(const std::vector<Transfer>& transfers, const Placement& before);

// Who sends whose tile where, to turn one table into another of the same grid; fixed points wherever there can be some.
std::vector<DevicePair> match_tiles(const TileTable& before, const TileTable& after);

// What each device lacks of its box after, each piece from one of its holders before. Holders of a tile are
// asked in turn, so that senders are balanced. Device by device, so that they need not be listed: a copy goes on from
// the same device. For arrays of rank 1 or more.
class BalancedTransfers {
 public:
  BalancedTransfers(const Shape& global, const TileTable& before, const TileTable& after);

  // The transfers to the next device, in ascending order; what is visited is there for the call only. Throws
  // RuntimeError where a tile has no holder.
  void next(const std::function<void(const Transfer&)>& visit);

 private:
  struct Tables;

  Device next_holder(const Shape& tile);

  std::shared_ptr<const Tables> tables_;
  std::size_t device_ = 0;            // the next one
  std::vector<std::uint32_t> turns_;  // by tile before: which of its holders is asked next
};

// All of them in a list.
std::vector<Transfer> balanced_transfers(const Shape& global, const TileTable& before, const TileTable& after);

// Between boxes of any kind: what each device lacks. Holders of the same box share the sending, so that the most loaded
// one sends as little as it can, up to a few per cent of a share that are not worth another message. Nothing where
// there are more pieces than `most`.
std::optional<std::vector<Transfer>> shared_transfers(const Placement& before, const Placement& after,
                                                      std::size_t most);
// Whether the transfers of an exchange that lists none are those, for want of a grid.
inline bool goes_by_boxes(const Placement& before, const Placement& after) {
  return before.is_listed() || after.is_listed();
}

// Those of an array that is at least as large, as far as they lie in this one.
void clip_transfers(std::vector<Transfer>& transfers, const Shape& global);

// The order of the plan format: members in row-major order of the corners they held before the step
// (equal corners by device), groups in order of their smallest member.
Groups order_groups(Groups groups, const Placement& before);

// Works out the lists that are absent. Throw RuntimeError where the step cannot be done at all.
void list_devices(StepOperation& operation, const Shape& global, const TileTable& before, const TileTable& after);
void list_devices(Step& step, const Placement& before);
bool is_listed(const StepOperation& operation);
StepOperation without_lists(StepOperation operation);

}  // namespace retile
