// Meshes, layouts and problems in JSON, with texts in any notation.
#pragma once

#include <optional>

#include "retile/base/json.h"
#include "retile/interchange/placed_mesh.h"
#include "retile/planner/problem.h"

namespace retile::interchange {

// Reads a mesh: an object, {"x": 4}, or a text in any notation. Throws InputError.
PlacedMesh read_placed_mesh(const JsonReader& reader);

// Reads the layout of an array of this shape from a text in any notation. Throws InputError.
Layout read_layout(const JsonReader& text, const Shape& shape, const std::optional<PlacedMesh>& mesh);

// Reads a problem like retile::read_problem(), whose "src" and "dst" may also be texts in any notation. Such a text is
// for the shape in "shape", on the mesh in "mesh" or "dst_mesh", which may be a text, too. Throws InputErrors.
Problem read_problem(const JsonReader& reader);
// Parses a problem from a line of JSON. Throws InputErrors.
Problem parse_problem(const SourceText& line);

}  // namespace retile::interchange
