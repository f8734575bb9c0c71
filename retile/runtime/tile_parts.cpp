#include "retile/runtime/tile_parts.h"

#include "retile/memory/tile.h"

namespace retile::runtime {

Shape corner_of(const Placement& placement, Device device) {
  if (placement.is_even()) return placement.offset(device);
  const std::vector<Part> parts = placement.parts(device);
  return parts.empty() ? Shape(static_cast<std::size_t>(placement.rank()) + 1, -1) : parts.front().box.lo;
}

std::int64_t place_in(const Part& part, const Shape& element) {
  for (std::size_t d = 0; d < element.size(); ++d) {
    if (element[d] < part.box.lo[d] || element[d] >= part.box.hi[d]) return -1;
  }
  return place_of(part, element);
}

void read_parts(const Placement& placement, Device device, const std::byte* tile, std::int64_t element_size,
                const std::function<void(const Box& box, const std::byte* bytes)>& visit) {
  const std::vector<Part> parts = placement.parts(device);
  if (parts.size() == 1) return visit(parts.front().box, tile);  // it is all there is, and packed
  for (const Part& part : parts) {
    Tile packed = allocate_tile(part.box, element_size);
    copy_box(tile, layout_of(part, element_size), packed.bytes.data(), part.box, part.box, element_size);
    visit(part.box, packed.bytes.data());
  }
}

void write_parts(const Placement& placement, Device device, std::byte* tile, std::int64_t element_size,
                 const std::function<void(const Box& box, std::byte* bytes)>& visit) {
  const std::vector<Part> parts = placement.parts(device);
  if (parts.size() == 1) return visit(parts.front().box, tile);
  for (const Part& part : parts) {
    Tile packed = allocate_tile(part.box, element_size);
    visit(part.box, packed.bytes.data());
    copy_box(packed.bytes.data(), part.box, tile, layout_of(part, element_size), part.box, element_size);
  }
}

}  // namespace retile::runtime
