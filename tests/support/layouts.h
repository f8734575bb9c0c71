// Random layouts beyond types, and problems between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/planner/problem.h"
#include "retile/types/layout.h"
#include "tests/support/problems.h"

namespace retile::test {

// From the texts of its layouts and their meshes.
struct ProblemText {
  const char* source_mesh;
  const char* source;
  const char* target_mesh;
  const char* target;
};
Problem problem_of(const ProblemText& text);

// Cut along axes, or prime parts of them, by any rule; sizes need not divide.
Layout uneven_layout(RandomProblems& random, const Mesh& mesh, const Shape& shape);

// Dimensions are cut into factors, and some of these along axes.
Layout viewed_layout(RandomProblems& random, const Mesh& mesh, const Shape& shape);

// As uneven, on a mesh of at most `world` devices, which may be any of the world's in any order.
Layout scattered_layout(RandomProblems& random, const Shape& shape, std::int64_t world);

// Boxes of any sizes, dealt to the world's devices; some boxes have replicas, some devices hold several or none.
Layout listed_layout(RandomProblems& random, const Shape& shape, std::int64_t world);

// Blocks dealt out in turn, listed tiles or tiles of a rule in each dimension, on a mesh of at most `world` devices;
// perhaps in another order in memory.
Layout any_form(RandomProblems& random, const Shape& shape, std::int64_t world);

// The layout with ghost zones in some dimensions, where it may have some; all of them wrap or none does.
enum class GhostZones { end, wrap };
Layout with_halo(RandomProblems& random, const Layout& layout, GhostZones ghosts);

// Between any two of these, in a world of at most so many devices, of some hundred elements at most. May be empty.
// Ghost zones of targets end where the array does, those of sources may wrap.
Problem any_problem(RandomProblems& random, std::int64_t world);
// A problem on up to 8 devices.
Problem any_problem(RandomProblems& random);

}  // namespace retile::test
