// Rules of what one step of a plan may do. Nothing here looks at every device of a large mesh: types are compared by
// what cuts them, and tables are as long as their text.
#pragma once

#include <optional>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/plan/plan.h"

namespace retile::language {

// Why no step of this kind, with these moves, leads from one placement to the other. Both are balanced and on one mesh.
std::optional<Fault> find_step_fault(const StepOperation& operation, const Placement& before, const Placement& after);

}  // namespace retile::language
