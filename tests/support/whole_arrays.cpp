#include "tests/support/whole_arrays.h"

#include <fmt/format.h>

#include <algorithm>

#include "retile/memory/rows.h"
#include "retile/memory/tile_layout.h"
#include "retile/types/text.h"

namespace retile {

Tile make_array(const Shape& shape, std::int64_t element_size, std::uint64_t seed) {
  return make_tile({shape, element_size, seed}, box_at(Shape(shape.size(), 0), shape));
}

Tiles slice_array(const Tile& array, const Placement& placement, std::int64_t element_size) {
  Tiles tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const auto bytes = static_cast<std::size_t>(checked_bytes(placement.size(device), element_size));
    tiles.push_back({placement.has_single_boxes() ? placement.box(device) : Box{}, Buffer(bytes)});
    for (const Part& part : placement.parts(device)) {
      copy_box(array.bytes.data(), array.box, tiles.back().bytes.data(), layout_of(part, element_size), part.box,
               element_size);
    }
  }
  return tiles;
}

std::optional<std::string> find_difference(const Tile& array, const Tiles& tiles, const Placement& placement,
                                           std::int64_t element_size) {
  const Tiles expected = slice_array(array, placement, element_size);
  if (tiles.size() != expected.size()) {
    return fmt::format("there are {} tiles for {} devices", tiles.size(), expected.size());
  }
  for (std::size_t device = 0; device < tiles.size(); ++device) {
    const auto& [box, is] = tiles[device];
    const auto& [wanted, should] = expected[device];
    if (box != wanted)
      return fmt::format("device {} holds {} instead of {}", device, to_string(box), to_string(wanted));
    if (is.size() != should.size()) {
      return fmt::format("device {} holds {} bytes instead of {}", device, is.size(), should.size());
    }
    const std::int64_t at = std::mismatch(is.begin(), is.end(), should.begin()).first - is.begin();
    if (at == static_cast<std::int64_t>(is.size())) continue;
    Shape element = box.lo;
    std::int64_t number = at / element_size;
    for (std::size_t i = element.size(); i-- > 0; number /= box.hi[i] - box.lo[i]) {
      element[i] += number % (box.hi[i] - box.lo[i]);
    }
    const auto place = static_cast<std::size_t>(at);
    return fmt::format("device {}, element {}: byte {} is {:#04x} instead of {:#04x}", device, to_string(element),
                       at % element_size, std::to_integer<unsigned>(is[place]),
                       std::to_integer<unsigned>(should[place]));
  }
  return std::nullopt;
}

}  // namespace retile
