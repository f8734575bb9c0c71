#include "retile/drawing/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "retile/base/utf8.h"
#include "retile/drawing/colors.h"
#include "retile/drawing/picture.h"
#include "retile/plan/text.h"

namespace retile::drawing {
namespace {

constexpr double frame_side = 260;
constexpr double step_side = 360;
constexpr double left_margin = 26;  // for the name of the rows
constexpr double text_width = 0.6;  // of a character, in font sizes

constexpr const char* style = R"(
  text { font-family: system-ui, sans-serif; fill: #1c2026 }
  .page { fill: #ffffff } .muted { fill: #626b78 } .code { font-family: ui-monospace, monospace }
  .void { fill: #eef0f3; stroke: #c9ced6; stroke-width: .7 } .side { fill: #d9dde3; stroke: #b6bcc6; stroke-width: .7 }
  .held { stroke: none } .number { fill: #14171b; text-anchor: middle; dominant-baseline: central }
  .sparse { text-anchor: start } .bar { fill: #8b96a5 } .over { fill: #c8452f } .rule { stroke: #1c2026; stroke-width: 1 }
  .arrow { fill: none; stroke: #626b78; stroke-width: 1.6 } .tip { fill: #626b78 }
  .piece { fill: none; stroke: #14171b; stroke-width: 1.4 } .flow { fill: none; stroke: #14171b; stroke-width: 1.1; opacity: .6 }
  @media (prefers-color-scheme: dark) {
    text, .rule { fill: #e7e9ec; stroke: none } .page { fill: #15181d } .muted { fill: #9aa4b2 }
    .void { fill: #22272e; stroke: #3b434e } .side { fill: #2e353e; stroke: #4a535f }
    .rule { stroke: #e7e9ec } .number { fill: #14171b } .flow { stroke: #e7e9ec } .arrow { stroke: #9aa4b2 } .tip { fill: #9aa4b2 }
  }
)";

// A length, rounded to a tenth of a pixel.
std::string px(double length) { return fmt::format("{:.6g}", std::round(length * 10) / 10); }

void put_rectangle(std::string& out, const Rectangle& place, const std::string& attributes) {
  put(out, "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>", px(place.x), px(place.y), px(place.width),
      px(place.height), attributes);
}

void put_text(std::string& out, double x, double y, double size, const std::string& attributes,
              const std::string& text) {
  put(out, "<text x=\"{}\" y=\"{}\" font-size=\"{}\" {}>{}</text>", px(x), px(y), px(size), attributes, escape(text));
}

// Puts text, shrunk to the width if it stays legible, otherwise cut short.
void put_fitting(std::string& out, double x, double y, double size, double width, const std::string& attributes,
                 const std::string& text) {
  constexpr double least = 8;
  const std::vector<std::string> characters = split_characters(text);
  const double fitting = width / (text_width * static_cast<double>(std::max<std::size_t>(1, characters.size())));
  if (fitting >= least) return put_text(out, x, y, std::min(size, fitting), attributes, text);
  std::string shortened;
  const auto most = static_cast<std::size_t>(width / (text_width * least)) - 1;
  for (std::size_t i = 0; i < most; ++i) shortened += characters[i];
  put_text(out, x, y, least, attributes, shortened + "…");
}

struct Label {
  std::string text;
  double size = 0;  // of the font; 0: none fits
};

// The devices whose numbers fit a tile in legible letters, perhaps not all. Numbers of single devices have one size.
Label label_for(const std::vector<Device>& devices, const Rectangle& place, std::int64_t world) {
  constexpr double least = 6;
  constexpr double good = 9;
  const std::size_t widest = fmt::format("{}", world - 1).size();
  for (std::size_t most = std::min<std::size_t>(devices.size(), 12); most > 0; --most) {
    const std::string text = list_devices(devices, most);
    const double width = text_width * static_cast<double>(std::max(widest, text.size()));
    const double size = std::min({13.0, place.height * 0.8, (place.width - 3) / width});
    if (size >= good || (most == 1 && size >= least)) return {text, size};
  }
  return {};
}

// Labels for boxes that are too small for their numbers. As many as have room are put all the same, beginning in their
// box.
class SparseLabels {
 public:
  void add(const std::vector<Device>& devices, const Rectangle& place) {
    labels_.push_back({place.x + 1, place.y + place.height / 2, list_devices(devices, 1)});
  }

  void put(std::string& out) {
    constexpr double font = 8;
    const auto row = [](const Spot& spot) { return std::round(spot.y); };
    std::sort(labels_.begin(), labels_.end(),
              [&](const Spot& a, const Spot& b) { return std::pair(row(a), a.x) < std::pair(row(b), b.x); });
    double last_row = -1e9;
    double free_from = 0;
    for (const Spot& spot : labels_) {
      if (row(spot) != last_row) {
        if (row(spot) < last_row + font + 3) continue;
        last_row = row(spot);
        free_from = -1e9;
      }
      if (spot.x < free_from) continue;
      put_text(out, spot.x, spot.y, font, "class=\"number sparse\"", spot.text);
      free_from = spot.x + text_width * font * static_cast<double>(spot.text.size()) + 18;
    }
  }

 private:
  struct Spot {
    double x = 0;
    double y = 0;
    std::string text;
  };
  std::vector<Spot> labels_;
};

// Puts a band for each holder. Of more than eight holders, eight are shown, spread over all.
void put_held(std::string& out, const Scene& scene, const std::vector<Device>& devices, const Rectangle& place,
              SparseLabels& sparse) {
  const std::size_t bands = std::min<std::size_t>(devices.size(), place.width < 16 ? 1 : 8);
  const double inset = std::min(0.6, 0.1 * std::min(place.width, place.height));
  const double width = (place.width - 2 * inset) / static_cast<double>(bands);
  for (std::size_t i = 0; i < bands; ++i) {
    const Device device = devices[i * devices.size() / bands];
    put_rectangle(out,
                  {place.x + inset + static_cast<double>(i) * width, place.y + inset, width, place.height - 2 * inset},
                  fmt::format("class=\"held\" fill=\"{}\"", to_hex(color_of(device, scene.devices))));
  }
  if (bands == devices.size()) {  // each band may have room for its own number
    const Label label = label_for({devices.back()}, {0, 0, width, place.height}, scene.devices);
    for (std::size_t i = 0; label.size >= 9 && i < bands; ++i) {
      put_text(out, place.x + inset + (static_cast<double>(i) + 0.5) * width, place.y + place.height / 2, label.size,
               "class=\"number\"", fmt::format("{}", devices[i]));
    }
    if (label.size >= 9) return;
  }
  const Label label = label_for(devices, place, scene.devices);
  if (label.size == 0) return sparse.add(devices, place);
  put_text(out, place.x + place.width / 2, place.y + place.height / 2, label.size, "class=\"number\"", label.text);
}

void put_slab(std::string& out, const Layer& layer) {
  const auto& [x, y, width, height] = layer.front;
  const double depth = layer.depth;
  if (depth > 0) {
    put(out, "<path class=\"side\" d=\"M{} {}l{} {}h{}v{}l{} {}v{}z\"/>", px(x), px(y), px(depth), px(-depth),
        px(width), px(height), px(-depth), px(depth), px(-height));
  }
  put_rectangle(out, layer.front, "class=\"void\"");
}

std::string interval_text(const Interval& interval) {
  return interval.size() == 1 ? fmt::format("{}", interval.lo) : fmt::format("{}:{}", interval.lo, interval.hi);
}

// Puts the names of the drawn dimensions: rows along the left, columns below, layers above each.
void put_names(std::string& out, const Scene& scene, const Picture& picture) {
  const auto name = [&](int dimension) {
    const SceneDimension& drawn = at(scene.dimensions, dimension);
    return fmt::format("{} ({})", drawn.label, group_digits(drawn.size));
  };
  if (picture.drawn.columns >= 0) {
    const std::string layered = picture.drawn.layers < 0 ? "" : ", layers " + name(picture.drawn.layers);
    put_text(out, 0, picture.height + 16, 11, "class=\"muted\"", name(picture.drawn.columns) + " →" + layered);
  }
  if (picture.drawn.rows >= 0) {
    put(out,
        "<text class=\"muted\" font-size=\"11\" text-anchor=\"end\" transform=\"translate(-9 {}) rotate(-90)\">← "
        "{}</text>",
        px(picture.layers.front().front.y), escape(name(picture.drawn.rows)));
  }
  if (picture.drawn.layers < 0) return;
  for (const Layer& layer : picture.layers) {
    put_fitting(out, layer.front.x + layer.depth, layer.front.y - layer.depth - 4, 11, layer.front.width,
                "class=\"muted\"", interval_text(layer.interval));
  }
}

void put_picture(std::string& out, const Scene& scene, const SceneFrame& frame, const Picture& picture) {
  for (const Layer& layer : picture.layers) put_slab(out, layer);
  SparseLabels sparse;
  for (const PlacedBox& placed : picture.boxes) {
    put_held(out, scene, frame.boxes[placed.box].holders, placed.place, sparse);
  }
  sparse.put(out);
  if (frame.boxes.empty()) {
    const Rectangle& front = picture.layers.front().front;
    put_text(out, front.x + front.width / 2, front.y + front.height / 2, 12, "class=\"muted\" text-anchor=\"middle\"",
             "nothing is held");
  }
  put_names(out, scene, picture);
}

// --- Documents.

// A document of parts below each other, as wide as the widest.
class Sheet {
 public:
  void put_line(double size, const std::string& attributes, const std::string& text) {
    y_ += size + 6;
    put_text(body_, margin, y_, size, attributes, text);
    extend(margin + text_width * size * static_cast<double>(count_characters(text)), y_);
  }
  void skip(double height) { y_ += height; }
  double top() const { return y_; }
  void extend(double right, double bottom) {
    width_ = std::max(width_, right);
    height_ = std::max(height_, bottom);
    y_ = std::max(y_, bottom);
  }
  std::string& body() { return body_; }

  std::string finish(const std::string& title, const std::string& description) const {
    const std::string width = px(width_ + margin);
    const std::string height = px(height_ + margin);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\">\n"
        "<title>{2}</title>\n<desc>{3}</desc>\n<style>{4}</style>\n<rect class=\"page\" width=\"{0}\" "
        "height=\"{1}\"/>\n{5}</svg>\n",
        width, height, escape(title), escape(description), style, body_);
  }

  static constexpr double margin = 24;

 private:
  std::string body_;
  double y_ = 10;
  double width_ = 0;
  double height_ = 0;
};

std::string drawing_title(const Scene& scene) {
  return fmt::format("{}{} to {}", scene.id.empty() ? "" : scene.id + ": ", scene.from, scene.to);
}

std::string facts_of(const Scene& scene) {
  const std::string cost = scene.cost ? ", " + to_string(*scene.cost) : "";
  return fmt::format("{}: {}{}; {}", plan_name(scene), count_of(static_cast<std::int64_t>(scene.steps.size()), "step"),
                     cost, describe_peak(scene));
}

std::string step_facts(const Scene& scene, const SceneStep& step) {
  const std::int64_t received = *std::max_element(step.received.begin(), step.received.end());
  return fmt::format("{}{}", step.cost ? fmt::format("cost {}, ", *step.cost) : "",
                     received == 0 ? "nothing is sent" : quantity(scene, received) + " received");
}

// Puts a bar for the elements that a device holds, against the most that it may hold.
void put_memory(std::string& out, const Scene& scene, const SceneFrame& frame, double scale, double y) {
  const auto length = [&](std::int64_t elements) { return static_cast<double>(elements) * scale; };
  put_rectangle(out, {0, y, std::max(0.5, length(frame.elements)), 6},
                fmt::format("class=\"bar{}\"", frame.elements > scene.bound ? " over" : ""));
  put(out, "<path class=\"rule\" d=\"M{0} {1}v10\"/>", px(length(scene.bound)), px(y - 2));
  put_text(out, 0, y + 20, 11, "class=\"muted\"", quantity(scene, frame.elements) + " per device");
}

struct Corner {
  double x = 0;
  double y = 0;
};

struct Scale {
  double side = 0;            // length of a picture's side
  std::int64_t elements = 1;  // that a bar of this length stands for
};

constexpr double heading_height = 40;

// Puts a frame with the step that led to it above, and what devices hold below. Returns where it ends.
double put_cell(std::string& out, const Scene& scene, std::size_t index, const Picture& picture, Corner cell,
                const Scale& scale) {
  const SceneFrame& frame = scene.frames[index];
  put(out, "<g transform=\"translate({} {})\">\n", px(cell.x), px(cell.y));
  const SceneStep* step = index == 0 ? nullptr : &scene.steps[index - 1];
  put_fitting(out, 0, 13, 13, scale.side, "font-weight=\"600\"",
              step == nullptr ? "source" : fmt::format("{} {}", index, step->operation));
  put_fitting(out, 0, 29, 11, scale.side, "class=\"muted\"",
              step == nullptr ? "as the array is" : step_facts(scene, *step));
  put(out, "<g transform=\"translate(0 {})\">", px(heading_height));
  put_picture(out, scene, frame, picture);
  put(out, "</g>\n");
  const double below = heading_height + picture.height + 34;
  put_fitting(out, 0, below, 11, scale.side, "class=\"code\"", frame.layout);
  put_memory(out, scene, frame, scale.side / static_cast<double>(scale.elements), below + 10);
  put(out, "</g>\n");
  return cell.y + below + 34;
}

void put_arrow(std::string& out, double x, double y, double length) {
  put(out, "<path class=\"arrow\" d=\"M{0} {1}h{2}\"/><path class=\"tip\" d=\"M{3} {1}l-7 -4v8z\"/>\n", px(x), px(y),
      px(length - 6), px(x + length));
}

void put_strip(Sheet& sheet, const Scene& scene, std::int64_t largest) {
  constexpr std::size_t most_columns = 4;
  constexpr double step_width = frame_side + 84;
  const std::size_t frames = scene.frames.size();
  const std::size_t rows = (frames + most_columns - 1) / most_columns;
  const std::size_t columns = (frames + rows - 1) / rows;
  for (std::size_t first = 0; first < frames; first += columns) {
    const std::size_t end = std::min(frames, first + columns);
    const double top = sheet.top() + 18;
    double bottom = top;
    for (std::size_t i = first; i < end; ++i) {
      const Picture picture = make_picture(scene, scene.frames[i], frame_side);
      const double x = Sheet::margin + left_margin + static_cast<double>(i - first) * step_width;
      bottom = std::max(bottom, put_cell(sheet.body(), scene, i, picture, {x, top}, {frame_side, largest}));
      if (i > first) put_arrow(sheet.body(), x - 72, top + heading_height + frame_side / 2 - 40, 40);
      sheet.extend(x + frame_side, bottom);
    }
  }
}

Device busiest_receiver(const SceneStep& step) {
  const auto end = step.received.begin() + static_cast<std::ptrdiff_t>(step.listed_devices);
  return std::max_element(step.received.begin(), end) - step.received.begin();
}

std::vector<Box> boxes_of(const SceneFrame& frame, Device device) {
  std::vector<Box> boxes;
  for (const HeldBox& held : frame.boxes) {
    if (std::binary_search(held.holders.begin(), held.holders.end(), device)) boxes.push_back(held.box);
  }
  return boxes;
}

// Puts where a device's pieces come from, and where they go.
void put_flows(std::string& out, const Scene& scene, std::size_t index, const Picture (&pictures)[2],
               const Corner (&corners)[2]) {
  const SceneStep& step = scene.steps[index];
  if (step.pieces.empty()) return;
  const Device device = busiest_receiver(step);
  SparseLabels sparse;
  const auto place = [&](std::size_t side, const Box& box) {
    std::vector<Rectangle> places = places_of(scene, scene.frames[index + side], pictures[side], box);
    for (Rectangle& rectangle : places) {
      rectangle.x += corners[side].x;
      rectangle.y += corners[side].y;
    }
    return places;
  };
  // The boxes that it holds afterwards, by origin: kept ones here, received ones below.
  for (const Box& box : boxes_of(scene.frames[index + 1], device)) {
    for (const Rectangle& rectangle : place(1, box)) put_rectangle(out, rectangle, "class=\"void\"");
    for (const Box& held : boxes_of(scene.frames[index], device)) {
      const auto kept = intersect(held, box);
      for (const Rectangle& rectangle : kept ? place(1, *kept) : std::vector<Rectangle>()) {
        put_held(out, scene, {device}, rectangle, sparse);
      }
    }
  }
  for (const Piece& piece : step.pieces) {
    if (piece.to != device) continue;
    const std::vector<Rectangle> from = place(0, piece.box);
    const std::vector<Rectangle> to = place(1, piece.box);
    for (const Rectangle& rectangle : from) put_rectangle(out, rectangle, "class=\"piece\"");
    for (const Rectangle& rectangle : to) put_held(out, scene, {piece.from}, rectangle, sparse);
    if (from.empty() || to.empty()) continue;
    const double x0 = from.front().x + from.front().width;
    const double y0 = from.front().y + from.front().height / 2;
    const double x1 = to.front().x;
    const double y1 = to.front().y + to.front().height / 2;
    put(out, "<path class=\"flow\" d=\"M{} {}C{} {} {} {} {} {}\"/><circle cx=\"{}\" cy=\"{}\" r=\"2.5\"/>\n", px(x0),
        px(y0), px((x0 + x1) / 2), px(y0), px((x0 + x1) / 2), px(y1), px(x1), px(y1), px(x1), px(y1));
  }
}

void put_step(Sheet& sheet, const Scene& scene, std::size_t index, std::int64_t largest) {
  const SceneStep& step = scene.steps[index];
  sheet.put_line(12, "", fmt::format("Step {} of {}: {}", index + 1, scene.steps.size(), step.sentence));
  if (!step.pieces.empty()) {
    sheet.put_line(11, "class=\"muted\"",
                   fmt::format("Lines: what device {} gets, on the right in the colours of those that send it.",
                               busiest_receiver(step)));
  }
  const double top = sheet.top() + 18;
  const Picture pictures[2] = {make_picture(scene, scene.frames[index], step_side),
                               make_picture(scene, scene.frames[index + 1], step_side)};
  Corner corners[2];
  for (std::size_t side = 0; side < 2; ++side) {
    const double x = Sheet::margin + left_margin + static_cast<double>(side) * (step_side + 110);
    const double bottom = put_cell(sheet.body(), scene, index + side, pictures[side], {x, top}, {step_side, largest});
    sheet.extend(x + step_side, bottom);
    corners[side] = {x, top + heading_height};
  }
  put_flows(sheet.body(), scene, index, pictures, corners);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string plan_name(const Scene& scene) {
  if (scene.planner == "xla") return "XLA's rules";
  return scene.planner.empty() ? "plan" : fmt::format("retile, planner {}", scene.planner);
}

std::string describe_frame(const Scene& scene, const SceneFrame& frame) {
  constexpr std::size_t most_boxes = 8;
  std::string text = fmt::format("{}, {} per device", frame.layout, quantity(scene, frame.elements));
  if (frame.idle_devices > 0) text += fmt::format(", {} hold nothing", count_of(frame.idle_devices, "device"));
  for (std::size_t i = 0; i < std::min(most_boxes, frame.boxes.size()); ++i) {
    const HeldBox& held = frame.boxes[i];
    text += fmt::format("{} {} on {}", i == 0 ? "." : ";", to_string(own_box(frame, held.box)),
                        list_devices(held.holders, 4));
  }
  if (frame.boxes.size() > most_boxes) {
    text += fmt::format("; and {} more", group_digits(static_cast<std::int64_t>(frame.boxes.size() - most_boxes)));
  }
  return text + ".";
}

std::string frame_svg(const Scene& scene, const SceneFrame& frame) {
  const Picture picture = make_picture(scene, frame, frame_side);
  std::string out =
      fmt::format("<svg viewBox=\"{} -4 {} {}\" role=\"img\" aria-label=\"{}\">", px(-left_margin),
                  px(frame_side + left_margin + 6), px(picture.height + 28), escape(describe_frame(scene, frame)));
  put_picture(out, scene, frame, picture);
  return out + "</svg>";
}

std::string to_svg(const Comparison& scenes, std::optional<std::size_t> step) {
  Sheet sheet;
  sheet.put_line(16, "font-weight=\"600\"", drawing_title(scenes.front()));
  const Scene& first = scenes.front();
  sheet.put_line(12, "class=\"muted\"",
                 fmt::format("{}, mesh {}{}{}", count_of(first.devices, "device"), first.mesh,
                             first.factors.empty() ? "" : "; ", first.factors));
  std::int64_t largest = 1;
  for (const Scene& scene : scenes) largest = std::max({largest, scene.bound, scene.peak});
  std::string description;
  for (const Scene& scene : scenes) {
    sheet.skip(12);
    sheet.put_line(13, "font-weight=\"600\"", facts_of(scene));
    description += facts_of(scene) + ". ";
    for (const SceneStep& taken : scene.steps) description += fmt::format("{}: {} ", taken.operation, taken.sentence);
    if (step && *step < scene.steps.size()) {
      put_step(sheet, scene, *step, largest);
    } else if (!step) {
      put_strip(sheet, scene, largest);
    }
  }
  return sheet.finish(drawing_title(first), description);
}

}  // namespace retile::drawing
