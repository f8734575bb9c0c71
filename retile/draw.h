// Pictures of plans (docs/pictures.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/plan/plan.h"
#include "retile/types/element_type.h"

namespace retile {

struct DrawOptions {
  std::optional<ElementType> element = {};  // quantities are in bytes of it, else in elements
  std::vector<int> dimensions = {};         // to draw, three at most: layers, rows, columns; none: chosen by the plan
  const Plan* beside = nullptr;             // another plan of the same problem
};

// A page of its own, which needs nothing from elsewhere and is a whole document: show it in a frame. Throws InputError
// where there is no such dimension or are too many devices, RuntimeError where the plan is wrong.
std::string draw_html(const Plan& plan, const DrawOptions& options = {});

// All frames of the plan as one picture.
std::string draw_svg(const Plan& plan, const DrawOptions& options = {});

}  // namespace retile
