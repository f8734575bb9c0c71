// Scenes: a plan as what there is to see. Frames, the array before and after each step, as boxes and who holds them;
// between them steps, who sends what to whom. Writers (svg.h, html.h, text.h) turn scenes into pictures.
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

// A dimension as the plan's steps count it: a factor of the array's where the plan has a view. The parts of a sum lie
// along dimensions in front, until they are reduced.
struct SceneDimension {
  std::string label;
  std::int64_t size = 1;
  bool is_stack = false;  // of the parts of a sum

  bool operator==(const SceneDimension&) const = default;
};

struct SceneFrame {
  std::string layout;             // as plans print it
  std::vector<int> dimensions;    // those of the scene that are still there, ascending
  std::vector<HeldBox> boxes;     // with the scene's dimensions: all along those that were reduced
  std::int64_t elements = 0;      // of the device that holds the most
  std::int64_t idle_devices = 0;  // that hold nothing
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
  // Beyond, the pieces of the last receivers are left out: all pairs of 128 devices are listed.
  static constexpr std::size_t most_pieces = 16384;

  std::string operation;               // "alltoall(0 -> 1; 4)"
  std::string sentence;                // what it does, for people
  std::optional<std::string> cost;     // as it is printed; nothing where the plan does not say
  Groups groups;                       // of alltoalls and gathers
  std::vector<Piece> pieces;           // what is sent, in order of the receivers
  Device listed_devices = 0;           // receivers whose pieces are listed: the first so many
  std::vector<std::int64_t> received;  // elements by device
  std::vector<std::int64_t> sent;
  std::int64_t held = 0;  // elements before and after together, of the device that has the most; slices are views
  TrafficTable traffic;
};

// Dimensions that are drawn, at most `most_dimensions`: the last is drawn as columns, the one before it as rows, the
// first of three as layers.
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
  std::string factors;  // which factors dimensions are seen as, in words; empty where they are the array's own
  std::int64_t devices = 1;
  std::optional<ElementType> element;
  std::vector<SceneDimension> dimensions;
  std::vector<SceneFrame> frames;  // the source, then after each step
  std::vector<SceneStep> steps;
  std::optional<PlanCost> cost;  // nothing where the plan does not say
  std::int64_t bound = 0;        // elements of the larger of source and target: no plan of ours has larger tiles
  std::int64_t peak = 0;         // of the largest tile on the way
  View view;
  // Lines that say what the layouts are in the notation in which they were given; empty in ours.
  std::string given = {};

  const SceneFrame& source() const { return frames.front(); }
  const SceneFrame& target() const { return frames.back(); }
};

// The scene of a correct plan. Without an element type, quantities are in elements. The view is all dimensions where
// they are few, else those that are cut the most; layers are parts of a sum, or the dimension that is cut the least.
// Throws
// InputError above most_listed_devices devices.
Scene make_scene(const Plan& plan, std::optional<ElementType> element);

// Plans of one problem, beside each other: ours, and perhaps somebody else's.
using Comparison = std::vector<Scene>;

// The second is drawn as the first, where it has the same dimensions.
void add_beside(Comparison& comparison, Scene scene);

struct ViewFault {
  std::size_t index = 0;  // into the view's dimensions
  Fault fault;
};
std::optional<ViewFault> find_fault(const Scene& scene, const View& view);

// "48 elements", or where the element type is known "192 bytes", "1.5 MiB".
std::string quantity(const Scene& scene, std::int64_t elements);

// The box in the frame's own dimensions.
Box own_box(const SceneFrame& frame, const Box& box);

// The largest of the numbers; 0 without any.
std::int64_t most(const std::vector<std::int64_t>& numbers);

// "0 4 8 12 +4": at most so many of them.
std::string list_devices(const std::vector<Device>& devices, std::size_t most);

// "peak 64 bytes per device, no more than the larger of source and target".
std::string describe_peak(const Scene& scene);

}  // namespace retile::drawing
