// Meshes and types in JSON: {"a": 2, "b": 2}, "[4{a}8, 3]".
#pragma once

#include <vector>

#include "retile/base/json.h"
#include "retile/types/distributed_type.h"

namespace retile {

// Each throws InputError with the place of the mistake.
Mesh read_mesh(const JsonReader& reader);
DistributedType read_type_text(const JsonReader& reader, const Mesh& mesh);
// A shape and a list of axis names per dimension, minor to major.
DistributedType read_type_by_axes(const JsonReader& shape, const JsonReader& axes, const Mesh& mesh);

}  // namespace retile
