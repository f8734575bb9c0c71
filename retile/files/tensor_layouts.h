// Layouts of a model's tensors, by name.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/layout.h"
#include "retile/types/placement.h"

namespace retile::files {

// Lines of JSON: {"name": "blocks.*.weight", "mesh": {"tp": 8}, "layout": "PartitionSpec('tp', None)"}. A name may have
// wildcards (* and ?), and the first line that fits counts. A mesh is an object or a text, and a layout a text, both in
// any notation; a "shape" is needed where nothing else says it.
class TensorLayouts {
 public:
  // Throws InputError with the place of the mistake.
  explicit TensorLayouts(std::vector<SourceText> lines);

  // The number of the line for a tensor. Throws InputError where none fits.
  std::size_t find_line(const std::string& name) const;
  // The layout that the line of this number says of a tensor: tensors of one line and shape have the same. `shape` is
  // null where only the line can say it. Throws InputError where the layout is of another shape, a sum, or of tiles
  // with another order in memory.
  Layout layout_of(std::size_t number, const std::string& name, const Shape* shape) const;

 private:
  std::vector<SourceText> lines_;
  std::vector<std::string> patterns_;
};

// The shape of a rank's file of a tensor: indices that its parts cover in each dimension. `size` are its elements.
// Throws InputError where they are no array.
Shape tile_shape(const std::string& name, const std::vector<Part>& parts, std::size_t rank, std::int64_t size);

}  // namespace retile::files
