#include "retile/drawing/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "retile/drawing/colors.h"
#include "retile/drawing/page.h"
#include "retile/drawing/svg.h"
#include "retile/plan/text.h"

namespace retile::drawing {
namespace {

using Json = nlohmann::ordered_json;

// --- The JSON that the script reads.

Json boxes_json(const SceneFrame& frame) {
  Json boxes = Json::array();
  for (const HeldBox& held : frame.boxes) boxes.push_back({held.box.lo, held.box.hi, held.holders});
  return boxes;
}

// One number where all devices have the same, otherwise a list.
Json by_device_json(const std::vector<std::int64_t>& numbers) {
  const bool is_equal = std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end();
  return is_equal && !numbers.empty() ? Json(numbers.front()) : Json(numbers);
}

// The box of each device; null for devices that hold several boxes or none.
std::vector<const Box*> single_boxes(const SceneFrame& frame, std::int64_t devices) {
  std::vector<const Box*> boxes(static_cast<std::size_t>(devices));
  std::vector<int> counts(boxes.size());
  for (const HeldBox& held : frame.boxes) {
    for (const Device device : held.holders) {
      const auto i = static_cast<std::size_t>(device);
      boxes[i] = ++counts[i] == 1 ? &held.box : nullptr;
    }
  }
  return boxes;
}

// The pieces of a step: [from, to], and the box unless it is what the sender's box and the receiver's share.
Json pieces_json(const Scene& scene, std::size_t index) {
  const auto before = single_boxes(scene.frames[index], scene.devices);
  const auto after = single_boxes(scene.frames[index + 1], scene.devices);
  Json pieces = Json::array();
  for (const Piece& piece : scene.steps[index].pieces) {
    const Box* from = at(before, piece.from);
    const Box* to = at(after, piece.to);
    Json entry{piece.from, piece.to};
    if (from == nullptr || to == nullptr || intersect(*from, *to) != piece.box) {
      entry.push_back(piece.box.lo);
      entry.push_back(piece.box.hi);
    }
    pieces.push_back(std::move(entry));
  }
  return pieces;
}

Json step_json(const Scene& scene, std::size_t index) {
  const SceneStep& step = scene.steps[index];
  return {{"operation", step.operation},
          {"sentence", step.sentence},
          {"cost", step.cost ? Json(*step.cost) : Json(nullptr)},
          {"held", step.held},
          {"received", by_device_json(step.received)},
          {"sent", by_device_json(step.sent)},
          {"pieces", pieces_json(scene, index)},
          {"listed", step.listed_devices},
          {"traffic",
           {{"side", step.traffic.side},
            {"per", step.traffic.devices_per_entry},
            {"elements", by_device_json(step.traffic.elements)}}}};
}

Json scene_json(const Scene& scene) {
  Json json{{"name", plan_name(scene)},      {"to", scene.to},
            {"devices", scene.devices},      {"bytes", scene.element ? Json(bytes_of(*scene.element)) : Json(nullptr)},
            {"bound", scene.bound},          {"peak", scene.peak},
            {"view", scene.view.dimensions}, {"dimensions", Json::array()},
            {"frames", Json::array()},       {"steps", Json::array()}};
  for (const SceneDimension& dimension : scene.dimensions)
    json["dimensions"].push_back({dimension.label, dimension.size});
  for (const SceneFrame& frame : scene.frames) {
    json["frames"].push_back({{"layout", frame.layout},
                              {"dimensions", frame.dimensions},
                              {"elements", frame.elements},
                              {"boxes", boxes_json(frame)}});
  }
  for (std::size_t i = 0; i < scene.steps.size(); ++i) json["steps"].push_back(step_json(scene, i));
  return json;
}

// JSON that is safe inside <script>: characters that could end it are escaped.
std::string script_json(const Json& json) {
  std::string safe;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      safe += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

// --- The page without scripts.

void put_summary(std::string& out, const Comparison& comparison) {
  put(out,
      "<table class=\"summary\"><thead><tr><th scope=\"col\">plan</th><th scope=\"col\">steps</th><th "
      "scope=\"col\">cost</th><th scope=\"col\">proved to be at least</th><th scope=\"col\">floor</th><th "
      "scope=\"col\">largest tile</th><th scope=\"col\">of source and target</th></tr></thead><tbody>\n");
  for (const Scene& scene : comparison) {
    const auto number = [&](auto member) {
      return scene.cost ? cost_text(*scene.cost, (*scene.cost).*member) : std::string("not said");
    };
    const std::string floor = scene.cost ? group_digits(scene.cost->floor) : "not said";
    put(out, "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td{}>{}</td><td>{}</td></tr>\n",
        escape(plan_name(scene)), scene.steps.size(), number(&PlanCost::total), number(&PlanCost::lower_bound), floor,
        scene.peak > scene.bound ? " class=\"over\"" : "", quantity(scene, scene.peak), quantity(scene, scene.bound));
  }
  put(out, "</tbody></table>\n");
}

void put_steps(std::string& out, const Scene& scene) {
  put(out,
      "<table class=\"steps\"><caption>Steps of {}, per device at most</caption><thead><tr><th scope=\"col\">step</th>"
      "<th scope=\"col\">cost</th><th scope=\"col\">sent</th><th scope=\"col\">received</th><th scope=\"col\">tile "
      "after</th>"
      "<th scope=\"col\">held in the step</th><th scope=\"col\">layout after</th></tr></thead><tbody>\n",
      escape(plan_name(scene)));
  put(out,
      "<tr><th "
      "scope=\"row\">source</th><td></td><td></td><td></td><td>{0}</td><td>{0}</td><td><code>{1}</code></td></tr>\n",
      quantity(scene, scene.source().elements), escape(scene.source().layout));
  for (std::size_t i = 0; i < scene.steps.size(); ++i) {
    const SceneStep& step = scene.steps[i];
    const SceneFrame& after = scene.frames[i + 1];
    put(out,
        "<tr><th scope=\"row\">{} "
        "{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n",
        i + 1, escape(step.operation), step.cost.value_or(""), quantity(scene, most(step.sent)),
        quantity(scene, most(step.received)), quantity(scene, after.elements), quantity(scene, step.held),
        escape(after.layout));
  }
  put(out, "</tbody></table>\n");
}

void put_frames(std::string& out, const Scene& scene) {
  put(out, "<ol class=\"frames\">\n");
  for (std::size_t i = 0; i < scene.frames.size(); ++i) {
    const SceneFrame& frame = scene.frames[i];
    const SceneStep* step = i == 0 ? nullptr : &scene.steps[i - 1];
    put(out,
        "<li><figure><figcaption><b>{}</b> <span>{}</span></figcaption>{}<p><code>{}</code> {} per "
        "device</p></figure></li>\n",
        step == nullptr ? "source" : escape(fmt::format("{} {}", i, step->operation)),
        step == nullptr ? "As the array is." : escape(step->sentence), frame_svg(scene, frame), escape(frame.layout),
        quantity(scene, frame.elements));
  }
  put(out, "</ol>\n");
}

// Puts the lines, which are comments as in a plan's text, without their slashes.
void put_given(std::string& out, std::string_view lines) {
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    if (line.starts_with("// ")) line.remove_prefix(3);
    put(out, "<p class=\"facts\"><code>{}</code></p>\n", escape(line));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

std::string problem_name(const Scene& scene) { return scene.id.empty() ? "Plan" : scene.id; }

void put_comparison(std::string& out, const Comparison& comparison, std::size_t number) {
  const Scene& first = comparison.front();
  put(out, "<section class=\"drawing\" aria-labelledby=\"title{0}\">\n<header><h1 id=\"title{0}\">{1}</h1>\n", number,
      escape(problem_name(first)));
  put(out, "<p class=\"route\"><code>{}</code> <span>to</span> <code>{}</code></p>\n", escape(first.from),
      escape(first.to));
  put_given(out, first.given);
  const std::string factors = first.factors.empty() ? "" : fmt::format("; {}", first.factors);
  put(out, "<p class=\"facts\">{}, mesh <code>{}</code>{}{}</p></header>\n", count_of(first.devices, "device"),
      escape(first.mesh), first.element ? fmt::format(", elements {}", name_of(*first.element)) : "", escape(factors));
  put_summary(out, comparison);
  Json json{{"colors", Json::array()}, {"plans", Json::array()}};
  for (Device device = 0; device < first.devices; ++device) {
    json["colors"].push_back(to_hex(color_of(device, first.devices)));
  }
  put(out, "<div class=\"app\"></div>\n<div class=\"still\">\n");
  for (const Scene& scene : comparison) {
    json["plans"].push_back(scene_json(scene));
    put(out, "<h2>{}</h2>\n", escape(plan_name(scene)));
    put_frames(out, scene);
  }
  put(out, "</div>\n<div class=\"tables\">\n");
  for (const Scene& scene : comparison) put_steps(out, scene);
  put(out, "</div>\n<script type=\"application/json\">{}</script>\n</section>\n", script_json(json));
}

}  // namespace

std::string to_html(const std::vector<Comparison>& comparisons) {
  const std::string title = comparisons.size() == 1
                                ? fmt::format("{}: {} to {}", problem_name(comparisons.front().front()),
                                              comparisons.front().front().from, comparisons.front().front().to)
                                : fmt::format("{} plans", comparisons.size());
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>\n{}</style>\n"
      "</head>\n<body>\n<main>\n",
      escape(title), page_style);
  for (std::size_t i = 0; i < comparisons.size(); ++i) put_comparison(out, comparisons[i], i);
  return out + fmt::format("</main>\n<script>\n\"use strict\";\n(() => {{\n{}\n{}}})();\n</script>\n</body>\n</html>\n",
                           picture_script, page_script);
}

}  // namespace retile::drawing
