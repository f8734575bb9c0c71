#include "tests/drawing/drawings.h"

#include <regex>
#include <vector>

#include "retile/planner/planner.h"

namespace retile::test {

PlanOptions by(PlannerKind planner) {
  PlanOptions options;
  options.planner = planner;
  return options;
}

drawing::Scene scene_of(const Problem& problem, const PlanOptions& options) {
  return drawing::make_scene(make_plan(problem, options), problem.element_type());
}

drawing::Scene scene_of(const char* mesh, const char* source, const char* target, const PlanOptions& options) {
  return scene_of(problem_of(mesh, source, target), options);
}

std::optional<std::string> find_markup_fault(std::string_view text) {
  static const std::regex tag(R"(^<(/?)([a-zA-Z][a-zA-Z0-9]*)((?: [a-zA-Z:-]+="[^"<]*")*)\s*(/?)>)");
  static const std::regex reference("^&(amp|lt|gt|quot|#39);");
  std::vector<std::string> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string near(text.substr(i, 2000));
    std::smatch match;
    if (text[i] == '&' && !std::regex_search(near, match, reference)) return "a bare & at " + near.substr(0, 80);
    if (text[i] == '>') return "a bare > at " + near.substr(0, 80);
    if (text[i] != '<') continue;
    if (!std::regex_search(near, match, tag)) return "no tag: " + near.substr(0, 80);
    if (match[1].matched && match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return "not open: " + near.substr(0, 80);
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    i += static_cast<std::size_t>(match.length()) - 1;
  }
  if (!open.empty()) return "not closed: " + open.back();
  return std::nullopt;
}

int count_of_part(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t i = text.find(part); i != std::string_view::npos; i = text.find(part, i + part.size())) ++count;
  return count;
}

}  // namespace retile::test
