// Scanning of meshes, types and layouts inside longer texts. Each function reads one from the scanner's position, and
// throws InputError with the place of a mistake. text.h and layout.h have the grammar, and parse whole texts.
#pragma once

#include "retile/base/scanner.h"
#include "retile/types/distributed_type.h"
#include "retile/types/layout.h"
#include "retile/types/mesh.h"

namespace retile {

Mesh scan_mesh(Scanner& scanner);
DistributedType scan_type(Scanner& scanner, const Mesh& mesh);
AxisPart scan_axis_part(Scanner& scanner, const Mesh& mesh);

// Scans a layout that is cut along axes of the mesh, up to where " sum {x}" could follow. It is well-formed and kept as
// written.
MeshLayout scan_cuts(Scanner& scanner, const Mesh& mesh);

}  // namespace retile
