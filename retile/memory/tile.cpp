#include "retile/memory/tile.h"

#include <fmt/format.h>

#include <cstring>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/memory/rows.h"

namespace retile {
namespace {

// Where an element of the box lies, in bytes from the first one.
std::int64_t place_of(const Box& box, const Strides& strides, const Shape& element) {
  std::int64_t place = 0;
  for (std::size_t i = 0; i < element.size(); ++i) place += (element[i] - box.lo[i]) * strides[i];
  return place;
}

}  // namespace

std::int64_t checked_bytes(std::int64_t elements, std::int64_t element_size) {
  const auto bytes = checked_multiply(elements, element_size);
  if (!bytes) throw RuntimeError(fmt::format("{} elements of {} bytes do not fit in 63 bits", elements, element_size));
  return *bytes;
}

Tile allocate_tile(const Box& box, std::int64_t element_size) {
  const std::int64_t bytes = checked_bytes(volume(box), element_size);
  Tile tile{box, Buffer(static_cast<std::size_t>(bytes))};
  if (bytes > 0) std::memset(tile.bytes.data(), 0, tile.bytes.size());
  return tile;
}

void copy_box(const Tile& from, Tile& to, const Box& box, std::int64_t element_size) {
  for_each_row(box, element_size, [&](const Shape& element, std::size_t bytes) {
    const std::byte* source = from.bytes.data() + element_number(from.box, element) * element_size;
    std::memcpy(to.bytes.data() + element_number(to.box, element) * element_size, source, bytes);
  });
}

void copy_box(const std::byte* from, const TileLayout& from_tile, std::byte* to, const TileLayout& to_tile,
              const Box& box, std::int64_t element_size) {
  const Strides from_strides = strides_of(from_tile, element_size);
  const Strides to_strides = strides_of(to_tile, element_size);
  const auto size = static_cast<std::size_t>(element_size);
  for_each_row(box, element_size, [&](Shape element, std::size_t bytes) {
    for (std::size_t done = 0; done < bytes; done += size) {
      std::memcpy(to + to_tile.offset + place_of(to_tile.box, to_strides, element),
                  from + from_tile.offset + place_of(from_tile.box, from_strides, element), size);
      if (!element.empty()) ++element.back();
    }
  });
}

}  // namespace retile
