// Rounds: how tiles of one grid become those of another if at any time each device sends one message and receives one,
// all equally large. A framework's collective permutation can do this.
#pragma once

#include <optional>
#include <vector>

#include "retile/types/placement.h"

namespace retile {

// The sender of a device that receives nothing.
constexpr Device nobody = -1;

// One round. All three lists are by device. Corners are in elements from the corner of the device's own tile; they are
// 0 where a device sends or receives nothing.
struct Round {
  std::vector<Device> senders;    // by receiver; no device is the sender of two
  std::vector<Shape> taken_from;  // the cell's corner in the tile before, by sender
  std::vector<Shape> written_to;  // the cell's corner in the tile after, by receiver
};

// The rounds of an exchange between two grids. A cell is the largest box that tiles of both grids are made of.
struct Rounds {
  Shape cell;
  std::vector<Round> own;        // cells that devices keep: senders are the devices themselves
  std::vector<Round> exchanged;  // the other cells, in as few rounds as possible
};

// Rounds in which every device sends and receives a cell. Senders are chosen among the holders of each cell so that all
// devices send as much as they receive. Nothing unless the tiles of each side are equally large, side by side, and held
// by equally many devices.
std::optional<Rounds> find_rounds(const Placement& before, const Placement& after);

// Rounds in which some devices may send or receive nothing: for sides where devices hold nothing, or tiles have unequal
// numbers of holders. All cells that devices keep are in `own`. No device receives what it has, and the busiest sender
// sends as few cells as possible. Nothing unless the tiles of each side are equally large and side by side.
std::optional<Rounds> find_partial_rounds(const Placement& before, const Placement& after);

}  // namespace retile
