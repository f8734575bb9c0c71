// Which devices communicate: groups, pairs and pieces worked out from the boxes before and after a step.
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

// The devices that gather each other's boxes: the tiles of `before` in one tile of `after` once each,
// replicas matched in order of their numbers. In the order of the plan format, see order_groups().
Groups allgather_groups(const TileTable& before, const TileTable& after);

// Groups whose boxes before make up a box that their boxes after make up too. Where replicas leave a
// choice, any even dealing has such groups (König's theorem), and they are found by matching.
Groups alltoall_groups(const TileTable& before, const TileTable& after);

// The sets of devices that the pieces connect.
Groups exchange_groups(const std::vector<Piece>& pieces, const Placement& before);

// Senders of a permutation that turns one table into another of the same grid. Tiles stay where they are if they can.
std::vector<DevicePair> match_tiles(const TileTable& before, const TileTable& after);

// An exchange between grids: what each device lacks of its tile after, each piece from one of its holders before. Who
// sends a piece is a function of the tile and its receiver: the devices that lack a tile ask its holders in turn, in
// the order of their tiles after. So a device's part is worked out by itself, in time that grows with its own pieces.
// For arrays of rank 1 or more.
class GridExchange {
 public:
  using Visit = std::function<void(const Piece&)>;

  // Throws RuntimeError where a tile before has no holder.
  GridExchange(const Shape& global, const TileTable& before, const TileTable& after);

  // The pieces to a device, and those from it. What is visited is there for the call only.
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
    std::vector<Device> holders;            // by tile, ascending
    std::vector<std::size_t> first_holder;  // of each tile, and the end
    std::vector<std::uint32_t> place;       // by device: among its tile's holders
    std::int64_t most_holders = 0;          // of a tile
  };

  std::int64_t turn_of(Device receiver, const Shape& tile) const;
  std::int64_t order_of(Device receiver, const Shape& tile) const;

  Side before_;
  Side after_;
};

// All of them in a list.
std::vector<Piece> balanced_pieces(const Shape& global, const TileTable& before, const TileTable& after);

// Between boxes of any kind: what each device lacks. Holders of the same box share the sending, so that the most loaded
// one sends as little as it can, up to a few per cent of a share that are not worth another message. Nothing where
// there are more pieces than `most`.
std::optional<std::vector<Piece>> shared_pieces(const Placement& before, const Placement& after, std::size_t most);
// Whether the pieces of an exchange that lists none are those, for want of a grid.
inline bool goes_by_boxes(const Placement& before, const Placement& after) {
  return before.is_listed() || after.is_listed();
}

// The order of the plan format: members in row-major order of the corners they held before the step
// (equal corners by device), groups in order of their smallest member.
Groups order_groups(Groups groups, const Placement& before);

// Works out the lists that are absent. Throw RuntimeError where the step cannot be done at all.
void list_devices(StepOperation& operation, const Shape& global, const TileTable& before, const TileTable& after);
void list_devices(Step& step, const Placement& before);
bool is_listed(const StepOperation& operation);
StepOperation without_lists(StepOperation operation);

}  // namespace retile
