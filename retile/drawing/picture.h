// The geometry of a frame's picture: rows and columns of boxes, layers side by side. picture.js has the same geometry,
// for dimensions that are chosen in the page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "retile/drawing/scene.h"

namespace retile::drawing {

struct Rectangle {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  bool operator==(const Rectangle&) const = default;
};

// A layer: an interval of the layers' dimension, drawn as a slab that shows its front.
struct Layer {
  Interval interval;
  Rectangle front;
  double depth = 0;  // how far the slab reaches back, up and to the right; 0 in pictures without layers
};

// The part of a box that lies in a layer.
struct PlacedBox {
  std::size_t box = 0;  // index into the frame's boxes
  Rectangle place;
};

// The dimensions of the scene that a frame's picture shows; -1: none.
struct DrawnDimensions {
  int layers = -1;
  int rows = -1;
  int columns = -1;
};

// A drawn dimension, 0 or more, as an index.
inline std::size_t index(int dimension) { return static_cast<std::size_t>(dimension); }

DrawnDimensions drawn_dimensions(const Scene& scene, const SceneFrame& frame);

// Whether the box contains index 0 of the dimensions that are not drawn.
bool is_shown(const SceneFrame& frame, const DrawnDimensions& drawn, const Box& box);

struct Picture {
  double width = 0;
  double height = 0;
  DrawnDimensions drawn;
  std::vector<Layer> layers;
  std::vector<PlacedBox> boxes;
};

// A picture that fits into a square of this side, with the boxes that are shown.
Picture make_picture(const Scene& scene, const SceneFrame& frame, double side);

// The rectangles of a box in the picture, one for each layer that it meets; none where it is not shown.
std::vector<Rectangle> places_of(const Scene& scene, const SceneFrame& frame, const Picture& picture, const Box& box);

}  // namespace retile::drawing
