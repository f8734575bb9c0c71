#include "retile/emission/named_ends.h"

#include <vector>

#include "retile/emission/device_form.h"

namespace retile::emission {

NamedEnds name_ends(const Movement& movement) {
  const auto source = find_type(movement.mesh, movement.source);
  const auto target = find_type(movement.mesh, movement.target());
  std::vector<AxisPart> parts;
  for (const auto* type : {&source, &target}) {
    if (!*type) continue;
    const DistributedType merged = merge_neighbours(**type);
    for (const Dimension& dimension : merged.dimensions()) {
      parts.insert(parts.end(), dimension.axes.begin(), dimension.axes.end());
    }
  }
  NamedEnds ends{movement.mesh.axis_count() == 0 ? Mesh({{"device", 1}}) : refine(movement.mesh, parts), {}, {}};
  const auto on_mesh = [&](const Placement& placement) -> std::optional<DistributedType> {
    const auto type = find_type(ends.mesh, placement);
    return type ? std::optional(merge_neighbours(*type)) : std::nullopt;
  };
  if (source) ends.source = on_mesh(movement.source);
  if (target) ends.target = on_mesh(movement.target());
  return ends;
}

}  // namespace retile::emission
