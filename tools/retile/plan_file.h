// Plans from elsewhere: a file of plans in place of SRC and DST, for commands that take one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "retile/plan/json.h"
#include "tools/retile/input.h"

namespace retile::command {

// Whether only SRC is given.
bool is_plan_file(const ProblemArguments& arguments);

// The element type that the plan or --dtype states; a plan states it only if it combines elements.
using StatedElement = std::optional<ElementType>;

// Reads the plans of the file, as text. A file of more than `most` plans is refused.
std::vector<SourceText> read_plans(const ProblemArguments& arguments, std::size_t most = SIZE_MAX);

// Calls visit(plan, element) for each of these plans that is right, and returns the exit status. Faults of the others
// are reported on stderr.
int for_each_plan(const ProblemArguments& arguments, const std::vector<SourceText>& plans,
                  const std::function<void(StatedPlan plan, StatedElement element)>& visit);
// Calls visit(plan, element) for each plan of the file that is right, and returns the exit status. Faults of the others
// are reported on stderr. A file of more than `most` plans is refused.
int for_each_plan(const ProblemArguments& arguments,
                  const std::function<void(StatedPlan plan, StatedElement element)>& visit,
                  std::size_t most = SIZE_MAX);

}  // namespace retile::command
