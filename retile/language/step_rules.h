// Rules of what one step of a plan may do. None of them inspects every device of a large mesh: types are compared by
// their cuts, and tables are as long as their text.
#pragma once

#include <optional>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/plan/plan.h"

namespace retile::language {

// The reason why no step of this kind, with these moves, leads from one placement to the other; nothing if one does.
// Both are balanced and on one mesh.
std::optional<Fault> find_step_fault(const StepOperation& operation, const Placement& before, const Placement& after);

}  // namespace retile::language
