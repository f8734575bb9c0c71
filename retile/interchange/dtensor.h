// PyTorch's DTensor as values: a placement for each dimension of a mesh. notation.h reads and writes them as text.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/interchange/placed_mesh.h"
#include "retile/types/layout.h"

namespace retile::interchange {

struct DTensorPlacement {
  enum class Kind { replicate, shard, partial };

  Kind kind = Kind::replicate;
  std::int64_t dimension = 0;            // of the array, that is sharded; below 0: from the end
  std::int64_t split_factor = 1;         // above 1, each of so many parts of what is held is cut: a strided shard
  Reduction reduction = Reduction::sum;  // of the parts
};

// Dimensions are cut along the mesh's in order, by nested ceilings. Strides that do not divide are read as another
// order of the mesh's dimensions. Throws InputError.
Layout dtensor_layout(const PlacedMesh& mesh, const std::vector<DTensorPlacement>& placements, const Shape& shape);

}  // namespace retile::interchange
