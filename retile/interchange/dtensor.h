// Values of PyTorch's DTensor: a placement for each dimension of a mesh. notation.h reads and writes them as text.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/interchange/placed_mesh.h"
#include "retile/types/layout.h"

namespace retile::interchange {

struct DTensorPlacement {
  enum class Kind { replicate, shard, partial };

  Kind kind = Kind::replicate;
  std::int64_t dimension = 0;            // the array's sharded dimension; negative: from the end
  std::int64_t split_factor = 1;         // above 1, a strided shard: each of this many parts of what is held is cut
  Reduction reduction = Reduction::sum;  // of a partial placement
};

// The layout of DTensor placements. Dimensions are cut along the mesh's dimensions in order, by nested ceilings.
// Strides that do not divide are read as another order of the mesh's dimensions. Throws InputError.
Layout dtensor_layout(const PlacedMesh& mesh, const std::vector<DTensorPlacement>& placements, const Shape& shape);

}  // namespace retile::interchange
