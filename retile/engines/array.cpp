#include "retile/engines/array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// Row-major number of an element of the box.
std::int64_t element_number(const Box& box, const Shape& element) {
  std::int64_t number = 0;
  for (std::size_t i = 0; i < element.size(); ++i) {
    number = number * (box.hi[i] - box.lo[i]) + element[i] - box.lo[i];
  }
  return number;
}

// Goes to the next row of the box: the last dimension is the row. False after the last one.
bool next_row(const Box& box, Shape& element) {
  for (std::size_t i = element.size(); i-- > 1;) {
    const std::size_t d = i - 1;
    if (++element[d] < box.hi[d]) return true;
    element[d] = box.lo[d];
  }
  return false;
}

std::int64_t row_length(const Box& box) { return box.lo.empty() ? 1 : box.hi.back() - box.lo.back(); }

// Calls visit(first element of the row, bytes of the row) for each row of the box.
template <typename Visit>
void for_each_row(const Box& box, std::int64_t element_size, Visit visit) {
  Shape element = box.lo;
  const auto bytes = static_cast<std::size_t>(row_length(box) * element_size);
  do {
    visit(element, bytes);
  } while (next_row(box, element));
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

Tile make_array(const Shape& shape, std::int64_t element_size, std::uint64_t seed) {
  Tile array = allocate_tile(box_at(Shape(shape.size(), 0), shape), element_size);
  const std::int64_t count = volume(array.box);
  std::byte* out = array.bytes.data();
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t bits = mix_bits(seed ^ mix_bits(static_cast<std::uint64_t>(i)));
    for (std::int64_t done = 0; done < element_size; done += 8) {
      const std::int64_t length = std::min<std::int64_t>(8, element_size - done);
      std::memcpy(out, &bits, static_cast<std::size_t>(length));
      out += length;
      bits = mix_bits(bits);
    }
  }
  return array;
}

Tiles slice_array(const Tile& array, const Placement& placement, std::int64_t element_size) {
  Tiles tiles;
  for (Device device = 0; device < placement.device_count(); ++device) {
    tiles.push_back(allocate_tile(placement.box(device), element_size));
    copy_box(array, tiles.back(), tiles.back().box, element_size);
  }
  return tiles;
}

std::optional<std::string> find_difference(const Tile& array, const Tiles& tiles, const Placement& placement,
                                           std::int64_t element_size) {
  if (static_cast<std::int64_t>(tiles.size()) != placement.device_count()) {
    return fmt::format("there are {} tiles for {} devices", tiles.size(), placement.device_count());
  }
  const std::int64_t tile_bytes = checked_bytes(placement.local_size(), element_size);
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Tile& tile = tiles[static_cast<std::size_t>(device)];
    const Box expected = placement.box(device);
    if (tile.box != expected) {
      return fmt::format("device {} holds {} instead of {}", device, to_string(tile.box), to_string(expected));
    }
    if (static_cast<std::int64_t>(tile.bytes.size()) != tile_bytes) {
      return fmt::format("device {} holds {} bytes instead of {}", device, tile.bytes.size(), tile_bytes);
    }
    std::optional<std::string> difference;
    for_each_row(expected, element_size, [&](const Shape& row, std::size_t bytes) {
      if (difference) return;
      const std::byte* is = tile.bytes.data() + element_number(tile.box, row) * element_size;
      const std::byte* should = array.bytes.data() + element_number(array.box, row) * element_size;
      if (std::memcmp(is, should, bytes) == 0) return;
      const auto at = std::mismatch(is, is + bytes, should).first - is;
      Shape element = row;
      if (!element.empty()) element.back() += at / element_size;
      difference =
          fmt::format("device {}, element {}: byte {} is {:#04x} instead of {:#04x}", device, to_string(element),
                      at % element_size, std::to_integer<unsigned>(is[at]), std::to_integer<unsigned>(should[at]));
    });
    if (difference) return difference;
  }
  return std::nullopt;
}

}  // namespace retile
