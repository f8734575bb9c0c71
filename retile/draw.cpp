#include "retile/draw.h"

#include "retile/base/error.h"
#include "retile/drawing/html.h"
#include "retile/drawing/svg.h"
#include "retile/plan/verify.h"

namespace retile {
namespace {

drawing::Scene scene_of(const Plan& plan, const DrawOptions& options) {
  const std::vector<std::string> faults = find_faults(plan.movement, 1);
  if (!faults.empty()) throw RuntimeError("the plan is wrong: " + faults.front());
  drawing::Scene scene = drawing::make_scene(plan, options.element);
  if (options.dimensions.empty()) return scene;
  const drawing::View view{options.dimensions};
  if (const auto found = drawing::find_fault(scene, view)) throw InputError(found->fault);
  scene.view = view;
  return scene;
}

drawing::Comparison comparison_of(const Plan& plan, const DrawOptions& options) {
  drawing::Comparison scenes{scene_of(plan, options)};
  if (options.beside != nullptr) add_beside(scenes, scene_of(*options.beside, options));
  return scenes;
}

}  // namespace

std::string draw_html(const Plan& plan, const DrawOptions& options) {
  return drawing::to_html({comparison_of(plan, options)});
}

std::string draw_svg(const Plan& plan, const DrawOptions& options) {
  return drawing::to_svg(comparison_of(plan, options), std::nullopt);
}

}  // namespace retile
