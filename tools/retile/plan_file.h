// Plans that somebody made: a file of them in place of SRC and DST, for commands that take one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "retile/plan/json.h"
#include "tools/retile/input.h"

namespace retile::command {

// Whether SRC alone is given.
bool is_plan_file(const ProblemArguments& arguments);

// What the plan or --dtype says that its elements are: a plan does so only where it combines them.
using StatedElement = std::optional<ElementType>;

// The plans of the file, as text. A file of more than so many is refused.
std::vector<SourceText> read_plans(const ProblemArguments& arguments, std::size_t most = SIZE_MAX);

// Calls visit(plan, element) for each of these plans that is right, and returns the exit status. What is wrong with the
// others is reported on stderr.
int for_each_plan(const ProblemArguments& arguments, const std::vector<SourceText>& plans,
                  const std::function<void(StatedPlan plan, StatedElement element)>& visit);
// Calls visit(plan, element) for each plan of the file that is right, and returns the exit status. What is wrong with
// the others is reported on stderr. A file of more than so many plans is refused.
int for_each_plan(const ProblemArguments& arguments,
                  const std::function<void(StatedPlan plan, StatedElement element)>& visit,
                  std::size_t most = SIZE_MAX);

}  // namespace retile::command
