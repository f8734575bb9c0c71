// Meshes, layouts and problems in JSON whose texts are in any notation.
#pragma once

#include <optional>

#include "retile/base/json.h"
#include "retile/interchange/placed_mesh.h"
#include "retile/planner/problem.h"

namespace retile::interchange {

// A mesh: an object, {"x": 4}, or a text in any notation. Throws InputError.
PlacedMesh read_placed_mesh(const JsonReader& reader);

// The layout of an array of this shape: a text in any notation. Throws InputError.
Layout read_layout(const JsonReader& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);

// A problem as retile::read_problem() reads it, whose "src" and "dst" may also be texts in any notation. Such a text is
// of the shape in "shape", and on the mesh in "mesh" or "dst_mesh", which may be a text, too. Throws InputErrors.
Problem read_problem(const JsonReader& reader);
// A problem on a line of its own.
Problem parse_problem(const SourceText& line);

}  // namespace retile::interchange
