// Costs of a plan by their definitions, box by box. The verifier compares a plan's own statements with them. Shares no
// code with the cost models that planners use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"

namespace retile {

// The boxes that a device holds, without empty ones.
std::vector<Box> held_boxes(const Placement& placement, Device device);

// Elements of a device's boxes after a step that it did not hold before.
std::int64_t lacked_elements(const Placement& before, const Placement& after, Device device);

// The cost of a step under the models "paper" and "volume"; nothing for other models, whose costs are not judged.
std::optional<std::int64_t> true_cost(const std::string& model, const Movement& movement, std::size_t step);

// The most elements that some device must receive, whatever the plan.
std::int64_t true_floor(const Plan& plan);

}  // namespace retile
