// Tables of which device holds which tile, as digits: for meshes of a single prime, of any number of devices.
//
// A digit is one of the mesh's prime parts. Where all of them have one size, a dimension that is cut along some of them
// has a digit at each level of its cuts, and a table of tiles is a list of digits per dimension: no memory per device.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/grids/grid.h"
#include "retile/types/placement.h"

namespace retile {

// The digits (indices into Mesh::prime_parts()) that cut each dimension, major to minor.
using DigitLevels = std::vector<std::vector<int>>;

DigitLevels digit_levels(const DistributedType& type);

struct DigitTable {
  Mesh mesh;  // of a single prime
  DigitLevels levels;

  bool operator==(const DigitTable& other) const { return levels == other.levels; }
};

inline DigitTable digit_table(const DistributedType& type) { return {type.mesh(), digit_levels(type)}; }

// Operations as for tables of tiles, see tile_table.h.
Grid grid_of(const DigitTable& table);
DigitTable coarsen(DigitTable table, const Grid& grid);
DigitTable deal(const DigitTable& first, const DigitTable& second, const Grid& finer, const DigitTable& wish);
DigitTable deal_toward(DigitTable within, const Grid& finer, const DigitTable& wish);
DigitTable recut(DigitTable held, const Move& move, const DigitTable& wish);
Placement placement_of(const Shape& global, const DigitTable& table);

}  // namespace retile
