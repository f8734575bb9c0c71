// Scales of blocks of an array, by which its elements become eight bits wide.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/types/element_type.h"

namespace retile {

// The scales of all blocks that a box of an array touches. A block's elements are multiplied by its scale, so that the
// largest becomes 448, the largest of f8e4m3fn: the bits are those of 448 / maximum in PyTorch. Whoever holds a part of
// a block has to know the largest element of all of it: boxes that share blocks tell each other their maxima.
//
//   BlockScales scales(box, {128, 128});
//   scales.measure(memory, {}, ElementType::f32);  // this box's elements
//   // others' maxima are written to what add_shared() returned
//   scales.finish();
//   scales.convert(ElementType::f32, box, 0, count, elements, out);
//
// The bits do not depend on how the array is cut.
class BlockScales {
 public:
  // The box has elements; `block` is positive, by dimension. There is a dimension.
  BlockScales(Box box, Shape block);

  // Whether elements of a type can be converted.
  static bool can_scale(ElementType stored);

  // The blocks that the box touches, in the array of all blocks. Tables are row-major in it.
  const Box& blocks() const { return blocks_; }
  // The largest absolute values of blocks: NaN where an element is. Of this box alone until finish().
  float* maxima() { return maxima_.data(); }
  // One over the scales: what a reader multiplies by.
  float* inverses() { return inverses_.data(); }
  // Room for the maxima of another box, row-major, in some of the blocks.
  float* add_shared(const Box& blocks);

  // Sets the maxima. `first` is the box's first element; without strides it is packed. can_scale() holds.
  void measure(const std::byte* first, const Strides& strides, ElementType stored);
  // Makes scales of all maxima. A block without elements other than 0, or with an infinite one, has the scale 1.
  void finish();

  // Converts `count` elements of a box inside, from the `begin`th in row-major order on, to f8e4m3fn: to the
  // nearest, ties to even, and at most 448.
  void convert(ElementType stored, const Box& inside, std::int64_t begin, std::int64_t count, const std::byte* in,
               std::byte* out) const;

 private:
  struct Shared {
    Box blocks;
    std::vector<float> maxima;
  };

  std::size_t place_of(const Shape& block) const;
  template <typename Visit>
  void visit_segments(const Box& inside, std::int64_t begin, std::int64_t count, Visit visit) const;

  Box box_;
  Shape block_;
  Box blocks_;
  Shape table_strides_;
  std::vector<float> maxima_;
  std::vector<float> scales_;
  std::vector<float> inverses_;
  std::deque<Shared> shared_;  // which stay where they are
};

}  // namespace retile
