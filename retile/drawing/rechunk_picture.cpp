#include "retile/drawing/rechunk_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/json.h"
#include "retile/drawing/colors.h"
#include "retile/drawing/svg.h"
#include "retile/plan/text.h"

namespace retile::drawing {
namespace {

// --- Scenes.

Shape shape_of(const JsonReader& reader, std::size_t rank) {
  Shape shape;
  for (const JsonReader& size : reader.elements()) shape.push_back(size.size());
  if (shape.size() != rank) {
    reader.fail(
        fmt::format("{} for an array of rank {}", count_of(static_cast<std::int64_t>(shape.size()), "size"), rank));
  }
  return shape;
}

// The extents that the first region reads: whole units, or only what it wants.
Shape first_read(const JsonReader& pass, const Shape& region, const Shape& shape) {
  const bool has_units = pass.member("reads").string() == "units";
  const Shape unit = shape_of(pass.member("unit"), shape.size());
  Shape read;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t wanted = std::min(region[i], shape[i]);
    read.push_back(has_units ? std::min(shape[i], divide_up(wanted, unit[i]) * unit[i]) : wanted);
  }
  return read;
}

std::string reading_of(const JsonReader& pass) {
  return fmt::format("{}, in {}; {} bytes read, {} written", count_of(pass.member("regions").size(), "region"),
                     pass.member("reads").string() == "units" ? "whole units" : "byte ranges",
                     group_digits(pass.member("read_bytes").count()),
                     group_digits(pass.member("written_bytes").count()));
}

std::vector<RechunkStage> stages_of(const JsonReader& plan, const Shape& shape) {
  const std::size_t rank = shape.size();
  std::vector<RechunkStage> stages;
  stages.push_back({plan.member("source").string(), shape_of(plan.member("source_chunks"), rank), {}, {}, {}});
  const std::vector<JsonReader> passes = plan.member("passes").elements();
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const JsonReader& pass = passes[i];
    const Shape region = shape_of(pass.member("region"), rank);
    stages.back().read = first_read(pass, region, shape);
    stages.back().reading = fmt::format("pass {}: {}", i + 1, reading_of(pass));
    const bool is_last = i + 1 == passes.size();
    const std::string name = is_last ? plan.member("target").string() : "between";
    stages.push_back({name, shape_of(pass.member("chunks"), rank), region, {}, {}});
  }
  return stages;
}

// The two dimensions that are cut the most, in ascending order.
std::vector<std::size_t> drawn_dimensions(const Shape& shape, const std::vector<RechunkStage>& stages) {
  std::vector<std::size_t> dimensions(shape.size());
  std::iota(dimensions.begin(), dimensions.end(), std::size_t{0});
  const auto cuts = [&](std::size_t dimension) {
    std::int64_t most = 1;
    for (const RechunkStage& stage : stages) most = std::max(most, divide_up(shape[dimension], stage.chunk[dimension]));
    return most;
  };
  std::stable_sort(dimensions.begin(), dimensions.end(),
                   [&](std::size_t a, std::size_t b) { return cuts(a) > cuts(b); });
  dimensions.resize(std::min<std::size_t>(2, dimensions.size()));
  std::sort(dimensions.begin(), dimensions.end());
  return dimensions;
}

// --- Pictures.

constexpr double side = 240;      // of an array
constexpr double array_gap = 46;  // between arrays, for the arrow
constexpr double top = 74;        // for names
constexpr double margin = 20;
constexpr std::int64_t most_lines = 40;  // between chunks along a dimension; where there are more, some are drawn

constexpr const char* rechunk_style = R"(
  text { font-family: system-ui, sans-serif; fill: #1c2026; font-size: 12px } .muted { fill: #626b78 }
  .page { fill: #ffffff } .array { fill: #eef0f3; stroke: #1c2026 } .chunk { stroke: #626b78; stroke-width: .6 }
  .read { fill: none; stroke: #c8452f; stroke-width: 2.5 } .arrow { fill: none; stroke: #626b78; stroke-width: 1.6 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e7e9ec } .muted { fill: #9aa4b2 } .page { fill: #15181d } .array { fill: #22272e; stroke: #e7e9ec }
  }
)";

void put_text(std::string& out, double x, double y, const char* kind, const std::string& text) {
  put(out, "<text x=\"{:.6g}\" y=\"{:.6g}\" class=\"{}\">{}</text>\n", x, y, kind, escape(text));
}

std::string text_of(const Shape& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

// The ends of pieces of an extent along a dimension, in elements. Many pieces are drawn as a few runs of them.
std::vector<std::int64_t> ends_of(std::int64_t size, std::int64_t extent) {
  const std::int64_t pieces = divide_up(size, extent);
  const std::int64_t step = divide_up(pieces, most_lines);
  std::vector<std::int64_t> ends;
  for (std::int64_t i = step; i < pieces; i += step) ends.push_back(i * extent);
  ends.push_back(size);
  return ends;
}

// The picture of one array, and the corner where it begins.
class StagePicture {
 public:
  StagePicture(const RechunkScene& scene, const RechunkStage& stage, double left)
      : scene_(scene), stage_(stage), left_(left) {}

  void put_all(std::string& out) const {
    put_text(out, left_, top - 42, "name", stage_.name);
    put_text(out, left_, top - 26, "muted", "chunks of " + text_of(stage_.chunk));
    if (!stage_.region.empty()) put_text(out, left_, top - 10, "muted", "regions of " + text_of(stage_.region));
    put(out, "<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" class=\"array\"/>\n", left_, top, side,
        side);
    if (!stage_.region.empty()) put_regions(out);
    put_chunks(out);
    if (!stage_.read.empty()) put_read(out);
  }

 private:
  // Sizes along the rows (0) or the columns (1) of the picture; an array of one dimension has one row.
  std::int64_t size(std::size_t axis) const { return along(axis, scene_.shape, 1); }
  std::int64_t along(std::size_t axis, const Shape& shape, std::int64_t otherwise) const {
    const std::size_t drawn = scene_.dimensions.size();
    if (axis + drawn < 2) return otherwise;
    return shape[scene_.dimensions[axis + drawn - 2]];
  }
  double pixels(std::size_t axis, std::int64_t elements) const {
    return side * static_cast<double>(elements) / static_cast<double>(size(axis));
  }

  void put_regions(std::string& out) const {
    std::int64_t row_begin = 0;
    std::int64_t number = 0;
    for (const std::int64_t row_end : ends_of(size(0), along(0, stage_.region, 1))) {
      std::int64_t begin = 0;
      for (const std::int64_t end : ends_of(size(1), along(1, stage_.region, 1))) {
        put(out, "<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" fill=\"{}\"/>\n",
            left_ + pixels(1, begin), top + pixels(0, row_begin), pixels(1, end - begin),
            pixels(0, row_end - row_begin), to_hex(color_of(static_cast<Device>(number++ % 8), 8)));
        begin = end;
      }
      row_begin = row_end;
    }
  }

  void put_chunks(std::string& out) const {
    for (const std::int64_t end : ends_of(size(0), along(0, stage_.chunk, 1))) {
      const double y = top + pixels(0, end);
      put(out, "<path d=\"M{:.6g} {:.6g}h{:.6g}\" class=\"chunk\"/>\n", left_, y, side);
    }
    for (const std::int64_t end : ends_of(size(1), along(1, stage_.chunk, 1))) {
      const double x = left_ + pixels(1, end);
      put(out, "<path d=\"M{:.6g} {:.6g}v{:.6g}\" class=\"chunk\"/>\n", x, top, side);
    }
  }

  void put_read(std::string& out) const {
    put(out, "<rect x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.6g}\" height=\"{:.6g}\" class=\"read\"/>\n", left_, top,
        pixels(1, along(1, stage_.read, 1)), pixels(0, along(0, stage_.read, 1)));
    const double y = top + side / 2;
    put(out, "<path d=\"M{0:.6g} {1:.6g}h{2:.6g}m-7 -5l7 5l-7 5\" class=\"arrow\"/>\n", left_ + side + 8, y,
        array_gap - 16);
  }

  const RechunkScene& scene_;
  const RechunkStage& stage_;
  double left_;
};

}  // namespace

bool is_rechunk_plan(const SourceText& line) {
  const JsonValue value = parse_json(line);
  return value.as<JsonObject>() != nullptr && JsonReader(line, value, "the plan").has("source_chunks");
}

RechunkScene make_rechunk_scene(const SourceText& line) {
  const JsonValue value = parse_json(line);
  const JsonReader plan(line, value, "the plan");
  plan.require_format();
  if (!plan.has("passes")) plan.fail("there is nothing to draw: the array has no elements");
  RechunkScene scene;
  for (const JsonReader& size : plan.member("shape").elements()) scene.shape.push_back(size.size());
  scene.stages = stages_of(plan, scene.shape);
  scene.dimensions = drawn_dimensions(scene.shape, scene.stages);
  scene.summary = fmt::format(
      "{} {}; {} bytes read ({} at least), {} written ({} at least)", plan.member("dtype").string(),
      text_of(scene.shape), group_digits(plan.member("read_bytes").count()),
      group_digits(plan.member("least_read_bytes").count()), group_digits(plan.member("written_bytes").count()),
      group_digits(plan.member("least_written_bytes").count()));
  return scene;
}

std::string to_svg(const RechunkScene& scene) {
  const auto count = static_cast<double>(scene.stages.size());
  const double arrays_width = count * side + (count - 1) * array_gap;
  const double text_width = 7 * static_cast<double>(scene.summary.size());  // estimated, of the longest line
  const double width = 2 * margin + std::max({600.0, arrays_width, text_width});
  const double height = top + side + 34 + 18 * count;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.6g} {1:.6g}\" width=\"{0:.6g}\" "
      "height=\"{1:.6g}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
      "<rect width=\"100%\" height=\"100%\" class=\"page\"/>\n",
      width, height, escape(scene.summary), rechunk_style);
  double left = margin;
  double y = top + side + 22;
  put_text(out, margin, y, "name", scene.summary);
  for (const RechunkStage& stage : scene.stages) {
    StagePicture(scene, stage, left).put_all(out);
    left += side + array_gap;
    if (!stage.reading.empty()) put_text(out, margin, y += 18, "muted", stage.reading);
  }
  put_text(out, margin, y + 18, "muted",
           fmt::format("drawn: {} of dimension{} {}; outlined is what the first region reads",
                       scene.dimensions.size() == 2 ? "rows and columns" : "columns",
                       scene.dimensions.size() == 2 ? "s" : "", fmt::join(scene.dimensions, " and ")));
  return out + "</svg>\n";
}

std::string to_html(const std::vector<RechunkScene>& scenes) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>retile rechunk</title></head><body>\n";
  for (const RechunkScene& scene : scenes) out += fmt::format("<figure>\n{}</figure>\n", to_svg(scene));
  return out + "</body></html>\n";
}

}  // namespace retile::drawing
