// All small meshes and types, and random larger ones: the domain of the exhaustive and property tests.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <vector>

#include "retile/types/distributed_type.h"
#include "retile/types/mesh.h"

namespace retile::test {

// Every mesh of at most `most_devices` devices whose axes are larger than 1 (a, b, c, … in order),
// one per ordered factorization, and the mesh {a: 1}.
std::vector<Mesh> all_meshes(std::int64_t most_devices);

// Every type of an array of this global shape: each axis of the mesh, whole, cuts no dimension or one
// of them, at every place in it.
std::vector<DistributedType> all_types(const Mesh& mesh, const Shape& global);

// Shapes of the rank for which all_types() has the most to say: every dimension divides by the number
// of devices, times 1 or 2.
std::vector<Shape> useful_shapes(const Mesh& mesh, int rank);

// Like all_types(), but with prime parts of axes instead of whole axes.
std::vector<DistributedType> all_prime_types(const Mesh& mesh, const Shape& global);

// A mesh of 1 to 4 axes of 1 to 6 each.
rc::Gen<Mesh> arbitrary_mesh();
// A global shape of the rank that every type over the mesh's prime parts divides.
Shape divisible_shape(const Mesh& mesh, int rank);
// Each prime part of the mesh cuts nothing or a random dimension, in random order.
rc::Gen<DistributedType> arbitrary_type(const Mesh& mesh, const Shape& global);

}  // namespace retile::test
