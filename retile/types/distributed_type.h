// Distributed array types: how a global array is cut into tiles over a mesh (fig:dist-syntax).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/list.h"
#include "retile/types/mesh.h"

namespace retile {

// Sizes or indices, one entry per array dimension, in elements.
using Shape = std::vector<std::int64_t>;

// A dimension, c{x̄}s of the paper: `global` elements, cut along `axes` into tiles of `tile` elements.
struct Dimension {
  std::int64_t tile = 1;
  std::vector<AxisPart> axes;  // minor to major: the first varies fastest
  std::int64_t global = 1;
};

// A distributed array type. Well-formed by construction (fig:well-formed); its global size fits in 63 bits.
class DistributedType {
 public:
  // Throws InputError where find_fault() finds one.
  DistributedType(Mesh mesh, std::vector<Dimension> dimensions);

  // The type with the tile sizes that follow from cutting `global` along `axes`, one list per
  // dimension. Throws InputError.
  static DistributedType cut(const Mesh& mesh, const Shape& global, const std::vector<std::vector<AxisPart>>& axes);
  // The type in which every device holds the whole array.
  static DistributedType replicated(const Mesh& mesh, const Shape& global);

  struct DimensionFault {
    int dimension = -1;  // -1: the type as a whole
    int axis = -1;       // index into the dimension's axes; -1: the dimension as a whole
    Fault fault;
  };
  static std::optional<DimensionFault> find_fault(const Mesh& mesh, std::span<const Dimension> dimensions);

  const Mesh& mesh() const { return mesh_; }
  int rank() const { return static_cast<int>(dimensions_.size()); }
  const std::vector<Dimension>& dimensions() const { return dimensions_; }
  const Dimension& dimension(int index) const { return at(dimensions_, index); }

  Shape global_shape() const;  // globaltype
  Shape local_shape() const;   // localtype
  std::int64_t global_size() const;
  std::int64_t local_size() const;

  // True where some dimension is cut along a digit of the part (axes of fig:dist-syntax).
  bool uses(const AxisPart& part) const;
  // The mesh's prime parts that cut no dimension.
  std::vector<AxisPart> free_primes() const;

  // T⟦τ⟧ of fig:dist-type-semantics: the corner of the device's tile. `offset` has rank() entries.
  void base_offset(Device device, std::span<std::int64_t> offset) const;
  Shape base_offset(Device device) const;

  // Whether both are written alike, except for how neighbouring parts of an axis are split.
  bool operator==(const DistributedType& other) const;

 private:
  Mesh mesh_;
  std::vector<Dimension> dimensions_;
};

// The device's base offset in one dimension, D⟦d⟧ of fig:dist-type-semantics.
std::int64_t base_offset(const Mesh& mesh, const Dimension& dimension, Device device);

// An equal type whose axes are cut into their prime parts, and one whose neighbouring parts are joined again.
DistributedType split_into_primes(const DistributedType& type);
DistributedType merge_neighbours(const DistributedType& type);

// True where the two place the same box on every device: equality of base-offset maps. Holds exactly
// where both have the same prime parts in the same order in each dimension, and equal shapes.
bool same_placement(const DistributedType& a, const DistributedType& b);

}  // namespace retile
