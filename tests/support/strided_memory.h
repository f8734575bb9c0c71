// Memory of a caller's own, in which tiles lie in any way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/memory/tile_layout.h"
#include "tests/support/problems.h"

namespace retile::test {

// Dimensions in any order, gaps between elements and rows, some dimensions backwards. No elements share memory.
Strides random_strides(RandomProblems& random, const Box& box, std::int64_t element_size);

// One tile in memory that is full of other bytes: before it, behind it and between its elements.
class StridedMemory {
 public:
  StridedMemory(TileLayout layout, std::int64_t element_size, std::uint64_t seed);

  std::byte* first() { return bytes_.data() + first_; }
  const std::byte* first() const { return bytes_.data() + first_; }
  const TileLayout& layout() const { return layout_; }
  std::vector<std::byte>& bytes() { return bytes_; }
  // Bytes before the tile's first element.
  std::size_t offset() const { return first_; }

  // The elements, packed.
  void put(const Tile& tile);
  Tile take() const;

  // Since it was made or put() was called last.
  bool is_unchanged() const { return bytes_ == before_; }
  bool is_unchanged_around_elements() const;

 private:
  TileLayout layout_;
  std::int64_t element_size_;
  std::size_t first_;
  std::vector<std::byte> bytes_;
  std::vector<std::byte> before_;
};

}  // namespace retile::test
