// Claims: boxes of an array that ranks say they hold, or want.
#pragma once

#include <vector>

#include "retile/types/placement.h"

namespace retile::transfer {

// The placement of such boxes, rank by rank. They need not make up the array. Boxes of different ranks may overlap in
// any way: those that do are cut along each other's faces, so that any two are equal or disjoint. Throws InputError
// where a box is none of the array's, or two of one rank overlap.
Placement placement_of(const Shape& shape, const std::vector<std::vector<Box>>& boxes);

// The part of a placement that lies in some boxes of the array, which may overlap. Memory stays as it is.
Placement placement_within(const Placement& placement, const std::vector<Box>& boxes);

}  // namespace retile::transfer
