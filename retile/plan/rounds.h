// Rounds: how tiles of one grid become those of another where, at any time, each device sends one message and receives
// one, all equally large. This is what a collective permutation of a framework can do.
#pragma once

#include <optional>
#include <vector>

#include "retile/types/placement.h"

namespace retile {

// The sender of a device that receives nothing.
constexpr Device nobody = -1;

// By device, and all three of the same length. Corners are in elements from the corner of the device's own tile; they
// are 0 where a device sends or receives nothing.
struct Round {
  std::vector<Device> senders;    // to each device: a permutation; a part of one where some send or receive nothing
  std::vector<Shape> taken_from;  // of the tile before, by sender
  std::vector<Shape> written_to;  // in the tile after, by receiver
};

// A cell is the largest box that tiles of both grids are made of.
struct Rounds {
  Shape cell;
  std::vector<Round> own;        // every device keeps a cell: senders are the devices themselves
  std::vector<Round> exchanged;  // as few as there can be: all cells but those that every device has
};

// Senders are chosen among the holders of each cell, so that all devices send as much as they receive. Nothing where a
// side's tiles are not equally large, side by side, and each held by equally many devices.
std::optional<Rounds> find_rounds(const Placement& before, const Placement& after);

// The same where some devices hold nothing of a side, or tiles have unequal numbers of holders: in a round, some
// devices may send or receive nothing. All that devices keep is in `own`. No device receives what it has, and the
// busiest sender sends as few cells as it can. Nothing where a side's tiles are not equally large and side by side.
std::optional<Rounds> find_partial_rounds(const Placement& before, const Placement& after);

}  // namespace retile
