// Meshes and layouts in JSON: {"a": 2, "b": 2}, "[4{a}8, 3]".
#pragma once

#include <optional>
#include <vector>

#include "retile/base/input_errors.h"
#include "retile/base/json.h"
#include "retile/types/distributed_type.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"

namespace retile {

// Each throws InputError with the place of the mistake. read_mesh() reports all mistakes at once.
Mesh read_mesh(const JsonReader& reader);
Layout read_layout_text(const JsonReader& reader, const Mesh& mesh);

// Read a value by its name. Each throws InputError.
UnevenRule read_uneven_rule(const JsonReader& reader);
Reduction read_reduction(const JsonReader& reader);
ElementType read_element_type(const JsonReader& reader);

// The members of an object that make up a layout, each with its own key; null where a member is absent. Shape, and axes
// or boxes, are required: the caller reports them where they are missing.
struct LayoutMembers {
  const JsonReader* shape = nullptr;    // [16, 4096]
  const JsonReader* axes = nullptr;     // axis names per dimension, or per factor of it, minor to major
  const JsonReader* view = nullptr;     // [[4, 4], [4096]]: factors of each dimension, major to minor
  const JsonReader* partial = nullptr;  // ["x"]
  const JsonReader* devices = nullptr;  // [0, 1, 2, 3]
  const JsonReader* boxes = nullptr;    // instead of axes, view and devices: [[[[lo, …], [hi, …]], …], …]
  const JsonReader* cyclic = nullptr;   // [32, [48, 1], null]: each dimension's block, and the device of the first one
  const JsonReader* tiles = nullptr;    // [[4, 3, 3], null]: sizes of the tiles of each dimension
  const JsonReader* halo = nullptr;     // [[1, 2], [0, 0]]: ghost zones before and after, by dimension
  const JsonReader* wrap = nullptr;     // [true, false]: whether they wrap
  const JsonReader* order = nullptr;    // [1, 0]: dimensions in memory, outermost first
};
// Reads a layout. Adds everything that is wrong to the faults, unless it follows from another fault, and then returns
// nothing. `mesh` is needed where there are no boxes; it is null where the mesh itself is at fault.
std::optional<Layout> read_layout(const LayoutMembers& members, const Mesh* mesh, UnevenRule rule, Reduction reduction,
                                  InputFaults& faults);

// Reads the boxes of each device: [[[lo, …], [hi, …]], …].
std::vector<std::vector<Box>> read_boxes(const JsonReader& reader, std::size_t rank);

// Read an array that must have this length.
std::vector<JsonReader> read_tuple(const JsonReader& reader, std::size_t length);
std::vector<std::int64_t> read_integers(const JsonReader& reader, std::size_t length);

}  // namespace retile
