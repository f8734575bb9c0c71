// Which devices communicate: groups, pairs and pieces, computed from the boxes before and after a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "retile/grids/tile_table.h"
#include "retile/plan/plan.h"

namespace retile {

// The groups of devices that gather each other's boxes. A group has each tile of `before` that lies in one tile of
// `after` once; replicas are matched in order of their numbers. Sorted as in the plan format, see order_groups().
Groups allgather_groups(const TileTable& before, const TileTable& after);

// Groups of devices whose boxes before and boxes after make up the same box. Where replicas leave a choice, any even
// dealing has such groups (König's theorem), and they are found by matching.
Groups alltoall_groups(const TileTable& before, const TileTable& after);

// The sets of devices that the pieces connect.
Groups exchange_groups(const std::vector<Piece>& pieces, const Placement& before);

// The senders of a permutation that turns one table into another of the same grid. Tiles stay on their devices where
// they can.
std::vector<DevicePair> match_tiles(const TileTable& before, const TileTable& after);

// An exchange between grids: each device receives what it lacks of its tile after, each piece from a device that holds
// it before. The sender of a piece is a function of the tile and the receiver: the devices that lack a tile ask its
// holders in turn, in the order of their tiles after. So each device can compute its own pieces alone, in time that
// grows with their number. For arrays of rank 1 or more.
class GridExchange {
 public:
  using Visit = std::function<void(const Piece&)>;

  // Throws RuntimeError where a tile before has no holder.
  GridExchange(const Shape& global, const TileTable& before, const TileTable& after);

  // Visit the pieces to a device, and those from it. A piece is valid only during the call.
  void visit_received(Device device, const Visit& visit) const;
  void visit_sent(Device device, const Visit& visit) const;

 private:
  // A grid's tiles and their holders.
  struct Side {
    Side(const Shape& global, TileTable tiles);

    std::span<const Device> holders_of(std::int64_t tile) const;
    std::int64_t tile_of(Device device) const { return table.number(static_cast<std::size_t>(device)); }
    Box box_of(Device device) const;

    TileTable table;
    Shape extent;                           // of a tile
    std::vector<Device> holders;            // of all tiles, ascending for each
    std::vector<std::size_t> first_holder;  // by tile: where its holders begin; and the end
    std::vector<std::uint32_t> place;       // by device: its index among its tile's holders
    std::int64_t most_holders = 0;          // over all tiles
  };

  std::int64_t turn_of(Device receiver, const Shape& tile) const;
  std::int64_t order_of(Device receiver, const Shape& tile) const;

  Side before_;
  Side after_;
};

// All pieces of a GridExchange in a list.
std::vector<Piece> balanced_pieces(const Shape& global, const TileTable& before, const TileTable& after);

// The pieces of an exchange between any boxes: what each device lacks. Holders of the same box share the sending so
// that the most loaded one sends as little as possible, give or take a few per cent of a share that are not worth
// another message. Nothing where there are more pieces than `most`.
std::optional<std::vector<Piece>> shared_pieces(const Placement& before, const Placement& after, std::size_t most);
// Whether an exchange without listed pieces has those of shared_pieces(): there is no grid.
inline bool goes_by_boxes(const Placement& before, const Placement& after) {
  return before.is_listed() || after.is_listed();
}

// Groups in the order of the plan format: members in row-major order of the corners they held before the step (equal
// corners by device), groups in order of their smallest member.
Groups order_groups(Groups groups, const Placement& before);

// Compute the lists that are absent. Throw RuntimeError where the step cannot be done at all.
void list_devices(StepOperation& operation, const Shape& global, const TileTable& before, const TileTable& after);
void list_devices(Step& step, const Placement& before);
bool is_listed(const StepOperation& operation);
StepOperation without_lists(StepOperation operation);

}  // namespace retile
