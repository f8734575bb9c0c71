// Meshes, types and layouts as parts of longer texts: each function reads what comes next, and throws InputError with
// its place. text.h and layout.h have the grammar, and read texts that are one of them.
#pragma once

#include "retile/base/scanner.h"
#include "retile/types/distributed_type.h"
#include "retile/types/layout.h"
#include "retile/types/mesh.h"

namespace retile {

Mesh scan_mesh(Scanner& scanner);
DistributedType scan_type(Scanner& scanner, const Mesh& mesh);
AxisPart scan_axis_part(Scanner& scanner, const Mesh& mesh);

// A layout up to the parts of a sum: cut along axes of the mesh, well-formed, and as it is written.
MeshLayout scan_cuts(Scanner& scanner, const Mesh& mesh);

}  // namespace retile
