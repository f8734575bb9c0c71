#include "retile/drawing/picture.h"

#include <algorithm>
#include <cmath>

namespace retile::drawing {
namespace {

constexpr double gap = 10;           // between slabs
constexpr double label_height = 16;  // above each slab
constexpr double relative_depth = 0.15;

Interval interval_of(const Box& box, int dimension) { return {box.lo[index(dimension)], box.hi[index(dimension)]}; }

// The whole dimension, cut wherever a box begins or ends.
std::vector<Interval> layers_of(const Scene& scene, const SceneFrame& frame, const Picture& picture) {
  const std::int64_t size = scene.dimensions[index(picture.drawn.layers)].size;
  std::vector<std::int64_t> edges{0, size};
  for (const HeldBox& held : frame.boxes) {
    if (!is_shown(frame, picture.drawn, held.box)) continue;
    const Interval interval = interval_of(held.box, picture.drawn.layers);
    edges.insert(edges.end(), {interval.lo, interval.hi});
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<Interval> intervals;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) intervals.push_back({edges[i], edges[i + 1]});
  return intervals;
}

struct Proportions {
  double width = 1;
  double height = 1;
};

// Height and width, of which the larger is 1. Long arrays are drawn less long than they are.
Proportions proportions_of(const Scene& scene, const Picture& picture) {
  if (picture.drawn.columns < 0) return {0.3, 0.3};
  if (picture.drawn.rows < 0) return {1, 0.14};
  const auto size = [&](int dimension) {
    return static_cast<double>(std::max<std::int64_t>(1, scene.dimensions[index(dimension)].size));
  };
  const double ratio = std::clamp(std::sqrt(size(picture.drawn.rows) / size(picture.drawn.columns)), 0.4, 1.8);
  return ratio <= 1 ? Proportions{1, ratio} : Proportions{1 / ratio, 1};
}

// Places slabs in rows, with the number of columns that makes them largest.
void place_layers(Picture& picture, const std::vector<Interval>& intervals, std::int64_t size, Proportions shape,
                  double side) {
  const bool has_depth = picture.drawn.layers >= 0;
  const double label = has_depth ? label_height : 0;
  double thickest = 0;
  const auto thickness = [&](const Interval& interval) {
    return has_depth ? relative_depth * static_cast<double>(interval.size()) / static_cast<double>(size) : 0;
  };
  for (const Interval& interval : intervals) thickest = std::max(thickest, thickness(interval));
  const std::size_t count = intervals.size();
  double scale = 0;
  std::size_t columns = 1;
  for (std::size_t c = 1; c <= count; ++c) {
    const std::size_t rows = (count + c - 1) / c;
    const double fitting = std::min((side / static_cast<double>(c) - gap) / (shape.width + thickest),
                                    (side / static_cast<double>(rows) - gap - label) / (shape.height + thickest));
    if (fitting > scale + 1e-9) {
      scale = fitting;
      columns = c;
    }
  }
  scale = std::max(scale, 1.0);
  const double cell_width = scale * (shape.width + thickest) + gap;
  const double cell_height = scale * (shape.height + thickest) + gap + label;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = static_cast<double>(i % columns) * cell_width;
    const std::size_t row = i / columns;
    const double y = static_cast<double>(row) * cell_height + label + scale * thickest;
    picture.layers.push_back({intervals[i],
                              {x, y, scale * shape.width, scale * shape.height},
                              has_depth ? std::max(3.0, scale * thickness(intervals[i])) : 0});
  }
  picture.width = static_cast<double>(std::min(columns, count)) * cell_width - gap;
  const std::size_t rows = (count + columns - 1) / columns;
  picture.height = static_cast<double>(rows) * cell_height - gap;
}

struct Span {
  double begin = 0;
  double length = 1;
};

// The box's span along a dimension, as a part of a length of 1.
Span span_of(const Scene& scene, const Box& box, int dimension) {
  if (dimension < 0) return {};
  const auto size = static_cast<double>(std::max<std::int64_t>(1, scene.dimensions[index(dimension)].size));
  const Interval interval = interval_of(box, dimension);
  return {static_cast<double>(interval.lo) / size, static_cast<double>(interval.size()) / size};
}

}  // namespace

DrawnDimensions drawn_dimensions(const Scene& scene, const SceneFrame& frame) {
  std::vector<int> there;  // dimensions that are not reduced yet
  for (const int dimension : scene.view.dimensions) {
    if (std::binary_search(frame.dimensions.begin(), frame.dimensions.end(), dimension)) there.push_back(dimension);
  }
  const auto from_the_end = [&](std::size_t i) { return i <= there.size() ? there[there.size() - i] : -1; };
  return {from_the_end(3), from_the_end(2), from_the_end(1)};
}

bool is_shown(const SceneFrame& frame, const DrawnDimensions& drawn, const Box& box) {
  return std::all_of(frame.dimensions.begin(), frame.dimensions.end(), [&](int dimension) {
    const bool is_drawn = dimension == drawn.layers || dimension == drawn.rows || dimension == drawn.columns;
    return is_drawn || box.lo[index(dimension)] == 0;
  });
}

std::vector<Rectangle> places_of(const Scene& scene, const SceneFrame& frame, const Picture& picture, const Box& box) {
  std::vector<Rectangle> places;
  if (!is_shown(frame, picture.drawn, box)) return places;
  const Span across = span_of(scene, box, picture.drawn.columns);
  const Span down = span_of(scene, box, picture.drawn.rows);
  for (const Layer& layer : picture.layers) {
    if (picture.drawn.layers >= 0 && intersect(layer.interval, interval_of(box, picture.drawn.layers)).size() == 0)
      continue;
    const Rectangle& front = layer.front;
    places.push_back({front.x + front.width * across.begin, front.y + front.height * down.begin,
                      front.width * across.length, front.height * down.length});
  }
  return places;
}

Picture make_picture(const Scene& scene, const SceneFrame& frame, double side) {
  Picture picture;
  picture.drawn = drawn_dimensions(scene, frame);
  const bool is_layered = picture.drawn.layers >= 0;
  const std::int64_t size = is_layered ? scene.dimensions[index(picture.drawn.layers)].size : 1;
  std::vector<Interval> intervals{{0, size}};
  if (is_layered && size > 0) intervals = layers_of(scene, frame, picture);
  place_layers(picture, intervals, std::max<std::int64_t>(1, size), proportions_of(scene, picture), side);
  for (std::size_t i = 0; i < frame.boxes.size(); ++i) {
    for (const Rectangle& place : places_of(scene, frame, picture, frame.boxes[i].box)) {
      picture.boxes.push_back({i, place});
    }
  }
  return picture;
}

}  // namespace retile::drawing
