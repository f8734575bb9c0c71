// Placements: which boxes each device holds, whatever type describes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "retile/types/box.h"
#include "retile/types/distributed_type.h"

namespace retile {

// A box that a device holds, and where it lies in the device's memory: `offset` is the first element's, `strides` the
// distance between neighbouring elements along each dimension, both in elements.
struct Part {
  Box box;
  std::int64_t offset = 0;
  Shape strides;

  bool operator==(const Part&) const = default;
};

// The position of an element of the part's box in the device's memory, in elements.
std::int64_t place_of(const Part& part, const Shape& element);

// A part that fills a device's memory, row-major.
Part packed_part(Box box);
bool is_packed(const Part& part);

// The end of a part that is not empty, in elements from the start of the device's memory.
std::int64_t end_of(const Part& part);

// The dimensions of devices' own arrays, in which their parts lie.
struct MemoryDimensions {
  std::vector<std::size_t> stepped;  // by dimension of the parts, the memory's that it steps along; none: its own
  std::vector<int> order;            // outermost first; none: as they come

  std::size_t of(std::size_t dimension) const { return stepped.empty() ? dimension : stepped[dimension]; }
};

// Who holds which boxes: tiles of a grid, given by a type (which takes no memory per device) or by a table of corners;
// or listed parts. A grid's tiles are equally large, except where the array ends before the grid does: there they are
// shorter, or empty.
class Placement {
 public:
  explicit Placement(DistributedType type);
  // The type's boxes, clipped to an array that is smaller than the type's.
  Placement(const Shape& global, DistributedType padded);
  // `corners` has the corner of each device's tile, device by device; the rank is 1 or more. is_on_grid() tells whether
  // they lie on the grid of tiles: a plan from elsewhere may be wrong.
  Placement(const Shape& global, const Shape& tile, std::vector<std::int64_t> corners);
  // Any parts, listed device by device.
  Placement(const Shape& global, std::vector<std::vector<Part>> parts, MemoryDimensions memory = {});
  // Likewise, in memory of which each device has this many elements: more than its parts reach where they are the
  // insides of padded arrays.
  Placement(const Shape& global, std::vector<std::vector<Part>> parts, MemoryDimensions memory,
            std::vector<std::int64_t> sizes);

  const Shape& global_shape() const { return global_; }
  // For the device that holds the most: its only or largest box, and the number of elements of its memory.
  const Shape& local_shape() const { return local_; }
  std::int64_t local_size() const { return local_size_; }
  int rank() const { return static_cast<int>(global_.size()); }
  std::int64_t device_count() const { return device_count_; }

  // The device's only box; an empty one where it holds nothing.
  Box box(Device device) const;
  // The boxes of a device, none of them empty.
  std::vector<Part> parts(Device device) const;
  // The device's part that contains a box, which is not empty; nothing where no part does.
  std::optional<Part> part_around(Device device, const Box& box) const;
  // The elements of the device's memory: up to where its last part ends, unless their number was given.
  std::int64_t size(Device device) const;
  // Whether every device holds at most one box, which fills its memory row-major.
  bool has_single_boxes() const { return !is_listed() || has_single_boxes_; }
  // Whether all tiles of a grid are inside the array and whole.
  bool is_even() const { return is_even_; }

  // For grids only: the shape of a whole tile, the shape of all tiles together (at least the global one), and the
  // corners of tiles.
  const Shape& tile_shape() const { return tile_; }
  const Shape& grid_extent() const { return extent_; }
  void offset(Device device, std::span<std::int64_t> corner) const;
  Shape offset(Device device) const;

  // The type that the placement was made from, perhaps of a larger array; null for tables and lists.
  const DistributedType* type() const { return std::get_if<DistributedType>(&source_); }
  // Whether parts are listed: then there is no grid.
  bool is_listed() const { return std::holds_alternative<std::vector<Held>>(source_); }

  // How listed parts lie in the memory of devices.
  const MemoryDimensions& memory_dimensions() const { return memory_; }

  // True where every device holds the same parts.
  bool operator==(const Placement& other) const;

 private:
  struct Held {
    std::vector<Part> parts;
    std::int64_t size = 0;  // elements of the device's memory
  };

  friend Placement clip(const Placement& placement, const Shape& global);
  void clip_to_global();

  Shape global_;
  Shape extent_;  // of the grid
  Shape tile_;
  Shape local_;
  std::int64_t local_size_ = 0;
  std::int64_t device_count_ = 0;
  bool is_even_ = false;
  bool has_single_boxes_ = true;
  bool is_sorted_ = false;  // every device's listed parts, by their corners
  MemoryDimensions memory_;
  std::variant<DistributedType, std::vector<std::int64_t>, std::vector<Held>> source_;
};

// The placement with its tiles cut off at the ends of a smaller array.
Placement clip(const Placement& placement, const Shape& global);

// Whether the tile divides the global shape and every corner is a multiple of it inside the array.
bool is_on_grid(const Placement& placement);

// A type over the mesh's prime parts that has this placement, if there is one.
std::optional<DistributedType> find_type(const Mesh& mesh, const Placement& placement);

// Whether every tile of the grid is held by equally many devices, as in every type.
bool is_balanced(const Placement& placement);

// The type's text where some type has this placement, else local shape and tile counts:
// "local [4, 1], tiles [1, 4]".
std::string to_string(const Mesh& mesh, const Placement& placement);

}  // namespace retile
