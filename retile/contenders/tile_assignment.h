// Tile assignments, as XLA's shardings have them: a grid of tiles, and the devices that hold them, in the order of the
// tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/plan/plan.h"
#include "retile/types/distributed_type.h"
#include "retile/types/placement.h"

namespace retile::contenders {

// A tile assignment. XLA leaves the order of a tile's replicas open; here they ascend, so that equal assignments place
// the same tiles. Devices are numbered from 0, in a mesh or within a group of its devices.
struct TileAssignment {
  Shape counts;                 // tiles along each dimension
  std::int64_t replicas = 1;    // devices per tile
  std::vector<Device> devices;  // row-major over the grid, the replicas of a tile side by side

  std::size_t rank() const { return counts.size(); }
  bool is_replicated() const;  // every device holds everything
  // Whether tiles have replicas, but not every device holds everything. XLA calls this a sharding with partial
  // replication, and counts the replicas as one more dimension.
  bool is_partial() const { return replicas > 1 && !is_replicated(); }

  bool operator==(const TileAssignment&) const = default;
};

TileAssignment assignment_of(const DistributedType& type);
Placement placement_of(const TileAssignment& assignment, const Shape& global);

// Stands for a dimension in a move whose digits come from the replicas of tiles, or become replicas.
constexpr int replicas = -1;

// The assignment after moves, which say which digits of the grid change their dimension: the minor digits of each
// `from` become the minor ones of `to`. Moves from replicas (a dynslice) are in order of dimensions.
TileAssignment after_moves(const TileAssignment& before, std::span<const Move> moves);

// The groups of devices whose tiles differ only in the digits that the moves take from their dimensions.
std::vector<std::vector<Device>> groups_along(const TileAssignment& before, std::span<const Move> moves);

// Split a dimension into two, of which the major one has `major` tiles, and merge two such dimensions.
TileAssignment with_split(const TileAssignment& assignment, std::size_t dimension, std::int64_t major);
TileAssignment with_merged(const TileAssignment& assignment, std::size_t dimension);

// The assignment with device i renamed to names[i].
TileAssignment with_renamed_devices(TileAssignment assignment, const std::vector<Device>& names);

// An assignment in groups. A group is the devices at one place in the grouping dimensions; groups are in the order of
// these places. All groups have the same assignment inside, of positions in the group; it has one tile in the grouping
// dimensions.
struct GroupedAssignment {
  std::vector<std::size_t> dimensions;
  Shape counts;  // of the grouping dimensions
  std::vector<std::vector<Device>> groups;
  TileAssignment inside;
};

GroupedAssignment group_by(const TileAssignment& assignment, std::vector<std::size_t> dimensions);

// The assignment of the whole mesh that has `inside` in every group.
TileAssignment ungroup(const GroupedAssignment& grouped, const TileAssignment& inside);

}  // namespace retile::contenders
