// The ends of a movement as types on a mesh, cut along whole axes, as shardings of other systems name them.
#pragma once

#include <optional>

#include "retile/plan/plan.h"
#include "retile/types/distributed_type.h"

namespace retile::emission {

struct NamedEnds {
  Mesh mesh;                              // its axes are split where an end is cut along parts of them
  std::optional<DistributedType> source;  // over the mesh; nothing where no type describes the end
  std::optional<DistributedType> target;
};

NamedEnds name_ends(const Movement& movement);

}  // namespace retile::emission
