// Scenes: what a picture of a plan shows. Frames are the array before and after each step, as boxes and their holders;
// between them are steps, which say who sends what to whom. Writers (svg.h, html.h, text.h) turn scenes into pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/grids/held_boxes.h"
#include "retile/plan/plan.h"
#include "retile/types/element_type.h"

namespace retile::drawing {

// A dimension as the plan's steps count it: a factor of the array's dimension where the plan has a view. The parts of a
// sum lie along dimensions in front, until they are reduced.
struct SceneDimension {
  std::string label;
  std::int64_t size = 1;
  bool is_stack = false;  // holds the parts of a sum

  bool operator==(const SceneDimension&) const = default;
};

struct SceneFrame {
  std::string layout;             // as printed in plans
  std::vector<int> dimensions;    // dimensions of the scene that are not reduced yet, ascending
  std::vector<HeldBox> boxes;     // in the scene's dimensions, with the whole extent of reduced ones
  std::int64_t elements = 0;      // on the device that holds the most
  std::int64_t idle_devices = 0;  // devices that hold nothing
};

// Amounts that devices send each other, as a square of `side` rows (senders) and columns (receivers). Above `most_side`
// devices, neighbours share a row and a column.
struct TrafficTable {
  static constexpr std::int64_t most_side = 64;

  std::int64_t side = 0;
  std::int64_t devices_per_entry = 1;
  std::vector<std::int64_t> elements;  // row-major
};

struct SceneStep {
  // The most pieces that are listed: enough for all pairs of 128 devices. Beyond, the pieces of the last receivers are
  // left out.
  static constexpr std::size_t most_pieces = 16384;

  std::string operation;               // "alltoall(0 -> 1; 4)"
  std::string sentence;                // says what the step does
  std::optional<std::string> cost;     // as printed; nothing where the plan does not state it
  Groups groups;                       // of alltoalls and gathers
  std::vector<Piece> pieces;           // in order of receivers
  Device listed_devices = 0;           // the number of receivers, from the first, whose pieces are listed
  std::vector<std::int64_t> received;  // by device, in elements
  std::vector<std::int64_t> sent;
  std::int64_t held = 0;  // before and after together, on the device that has the most; slices are views
  TrafficTable traffic;
};

// The dimensions that are drawn, at most `most_dimensions`: the last as columns, the one before it as rows, the first
// of three as layers.
struct View {
  static constexpr std::size_t most_dimensions = 3;

  std::vector<int> dimensions;
};

struct Scene {
  std::string id;
  std::string from;  // the layouts of source and target
  std::string to;
  std::string mesh;
  std::string planner;
  std::string factors;  // says which factors dimensions are seen as; empty where they are the array's own
  std::int64_t devices = 1;
  std::optional<ElementType> element;
  std::vector<SceneDimension> dimensions;
  std::vector<SceneFrame> frames;  // the source, then after each step
  std::vector<SceneStep> steps;
  std::optional<PlanCost> cost;  // nothing where the plan does not state it
  std::int64_t bound = 0;        // elements of the larger of source and target, which tiles of our plans do not exceed
  std::int64_t peak = 0;         // elements of the largest tile on the way
  View view;
  // Lines that name the layouts in the notation in which they were given; empty for our notation.
  std::string given = {};

  const SceneFrame& source() const { return frames.front(); }
  const SceneFrame& target() const { return frames.back(); }
};

// The scene of a correct plan. Without an element type, quantities are in elements. The view has all dimensions if they
// are few, otherwise those that are cut the most; layers are parts of a sum, or the dimension that is cut the least.
// Throws InputError above most_listed_devices devices.
Scene make_scene(const Plan& plan, std::optional<ElementType> element);

// Plans of one problem side by side: ours, and perhaps another system's.
using Comparison = std::vector<Scene>;

// Adds a scene, with the view of the first one if both have the same dimensions.
void add_beside(Comparison& comparison, Scene scene);

struct ViewFault {
  std::size_t index = 0;  // into the view's dimensions
  Fault fault;
};
std::optional<ViewFault> find_fault(const Scene& scene, const View& view);

// An amount, "48 elements", or where the element type is known, "192 bytes", "1.5 MiB".
std::string quantity(const Scene& scene, std::int64_t elements);

// The box in the frame's own dimensions.
Box own_box(const SceneFrame& frame, const Box& box);

// The largest of the numbers; 0 where there are none.
std::int64_t most(const std::vector<std::int64_t>& numbers);

// A list of at most `most` devices, "0 4 8 12 +4".
std::string list_devices(const std::vector<Device>& devices, std::size_t most);

// A text such as "peak 64 bytes per device, no more than the larger of source and target".
std::string describe_peak(const Scene& scene);

}  // namespace retile::drawing
