// Placements: which box each device holds. What is physically there, whatever type describes it.
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

// Either a type, which costs no memory per device, or a table of corners.
class Placement {
 public:
  explicit Placement(DistributedType type);
  // `corners`: the corner of each device's tile, device by device; rank 1 or more. Whether they lie on
  // the grid of tiles is for is_on_grid() to say: a plan that somebody wrote may be wrong.
  Placement(const Shape& global, const Shape& local, std::vector<std::int64_t> corners);

  const Shape& global_shape() const { return global_; }
  const Shape& local_shape() const { return local_; }
  std::int64_t local_size() const;
  int rank() const { return static_cast<int>(global_.size()); }
  std::int64_t device_count() const { return device_count_; }

  void offset(Device device, std::span<std::int64_t> corner) const;
  Shape offset(Device device) const;
  Box box(Device device) const;

  // The type it was made from; null for a table.
  const DistributedType* type() const { return std::get_if<DistributedType>(&source_); }

  // The same box on every device.
  bool operator==(const Placement& other) const;

 private:
  Shape global_;
  Shape local_;
  std::int64_t device_count_;
  std::variant<DistributedType, std::vector<std::int64_t>> source_;
};

// True where the local shape divides the global one and every corner is a multiple of it inside.
bool is_on_grid(const Placement& placement);

// A type over the mesh's prime parts that has this placement, if there is one.
std::optional<DistributedType> find_type(const Mesh& mesh, const Placement& placement);

// True where every tile of the grid is held by equally many devices, as every type has it.
bool is_balanced(const Placement& placement);

// The type's text where some type has this placement, else local shape and tile counts:
// "local [4, 1], tiles [1, 4]".
std::string to_string(const Mesh& mesh, const Placement& placement);

}  // namespace retile
