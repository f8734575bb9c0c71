// The copies of a stage's pieces. There are many pieces and few shapes of them: a shape is worked out once, and a piece
// says where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/schedule.h"

namespace retile {

// A copy of a shape, in bytes from the first elements of the tiles.
struct PlacedCopy {
  std::uint32_t shape = 0;
  std::uint32_t from = 0;  // devices
  std::uint32_t to = 0;
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
};

class PieceCopies {
 public:
  PieceCopies(const Stage& stage, std::int64_t element_size);

  // Of a box that lies in both devices' tiles.
  PlacedCopy place(Device from, Device to, const Box& box);

  // Between places, not tiles.
  const BoxCopy& shape(const PlacedCopy& copy) const { return shapes_[copy.shape].copy; }
  // Bytes that the shapes take, about.
  std::int64_t bytes() const { return static_cast<std::int64_t>(shapes_.size()) * 512; }

 private:
  struct PieceShape {
    Shape extent;
    Strides from;
    Strides to;
    BoxCopy copy;
  };

  PlacedCopy place_unevenly(Device from, Device to, const Box& box);
  std::uint32_t find_shape(const Box& box, const Strides& from, const Strides& to);

  const Stage* stage_;
  std::int64_t element_size_;
  Strides packed_from_;  // of tiles without strides of their own, where they are all alike
  Strides packed_to_;
  Shape corner_;
  std::vector<PieceShape> shapes_;
};

}  // namespace retile
