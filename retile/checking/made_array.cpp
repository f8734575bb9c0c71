#include "retile/checking/made_array.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/mixing.h"
#include "retile/memory/rows.h"
#include "retile/types/text.h"

namespace retile {
namespace {

// The bytes of consecutive elements of a made-up array.
void make_elements(const MadeArray& array, std::int64_t first, std::byte* out, std::size_t bytes) {
  const std::byte* const end = out + bytes;
  for (auto number = static_cast<std::uint64_t>(first); out != end; ++number) {
    std::uint64_t bits = mix_bits(array.seed ^ mix_bits(number));
    for (std::int64_t done = 0; done < array.element_size; done += 8) {
      const std::int64_t length = std::min<std::int64_t>(8, array.element_size - done);
      std::memcpy(out, &bits, static_cast<std::size_t>(length));
      out += length;
      bits = mix_bits(bits);
    }
  }
}

// Compares the tile row by row with what should_be(first element of the row, its bytes) points to.
template <typename ShouldBe>
std::optional<std::string> compare_rows(const Tile& tile, Device device, const Box& expected, std::int64_t element_size,
                                        ShouldBe should_be) {
  if (tile.box != expected) {
    return fmt::format("device {} holds {} instead of {}", device, to_string(tile.box), to_string(expected));
  }
  const std::int64_t tile_bytes = checked_bytes(volume(expected), element_size);
  if (static_cast<std::int64_t>(tile.bytes.size()) != tile_bytes) {
    return fmt::format("device {} holds {} bytes instead of {}", device, tile.bytes.size(), tile_bytes);
  }
  std::optional<std::string> difference;
  for_each_row(expected, element_size, [&](const Shape& row, std::size_t bytes) {
    if (difference) return;
    const std::byte* is = tile.bytes.data() + element_number(tile.box, row) * element_size;
    const std::byte* should = should_be(row, bytes);
    if (std::memcmp(is, should, bytes) == 0) return;
    const auto at = std::mismatch(is, is + bytes, should).first - is;
    Shape element = row;
    if (!element.empty()) element.back() += at / element_size;
    difference =
        fmt::format("device {}, element {}: byte {} is {:#04x} instead of {:#04x}", device, to_string(element),
                    at % element_size, std::to_integer<unsigned>(is[at]), std::to_integer<unsigned>(should[at]));
  });
  return difference;
}

}  // namespace

void fill_tile(const MadeArray& array, Tile& tile) {
  const Box whole = box_at(Shape(array.shape.size(), 0), array.shape);
  std::byte* out = tile.bytes.data();
  for_each_row(tile.box, array.element_size, [&](const Shape& row, std::size_t bytes) {
    make_elements(array, element_number(whole, row), out, bytes);
    out += bytes;
  });
}

Tile make_tile(const MadeArray& array, const Box& box, Buffer room) {
  Tile tile{box, std::move(room)};
  fill_tile(array, tile);
  return tile;
}

Tile make_tile(const MadeArray& array, const Box& box) {
  return make_tile(array, box, Buffer(static_cast<std::size_t>(checked_bytes(volume(box), array.element_size))));
}

void make_parts(const MadeArray& array, const std::vector<Part>& parts, std::byte* memory) {
  for (const Part& part : parts) {
    const Tile made = make_tile(array, part.box);
    copy_box(made.bytes.data(), part.box, memory, layout_of(part, array.element_size), part.box, array.element_size);
  }
}

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

std::optional<std::string> find_difference(const MadeArray& array, const Tile& tile, Device device,
                                           const Box& expected) {
  const Box whole = box_at(Shape(array.shape.size(), 0), array.shape);
  std::vector<std::byte> made;
  return compare_rows(tile, device, expected, array.element_size, [&](const Shape& row, std::size_t bytes) {
    made.resize(bytes);
    make_elements(array, element_number(whole, row), made.data(), bytes);
    return made.data();
  });
}

std::optional<std::string> find_difference(const MadeArray& array, const std::byte* memory, Device device,
                                           const std::vector<Part>& parts) {
  std::optional<std::string> difference;
  for (const Part& part : parts) {
    if (difference) break;
    Tile tile = allocate_tile(part.box, array.element_size);
    copy_box(memory, layout_of(part, array.element_size), tile.bytes.data(), part.box, part.box, array.element_size);
    difference = find_difference(array, tile, device, part.box);
  }
  return difference;
}

std::optional<std::string> find_difference(const Tile& array, const Tiles& tiles, const Placement& placement,
                                           std::int64_t element_size) {
  if (static_cast<std::int64_t>(tiles.size()) != placement.device_count()) {
    return fmt::format("there are {} tiles for {} devices", tiles.size(), placement.device_count());
  }
  std::optional<std::string> difference;
  for (Device device = 0; device < placement.device_count() && !difference; ++device) {
    difference = compare_rows(tiles[static_cast<std::size_t>(device)], device, placement.box(device), element_size,
                              [&](const Shape& row, std::size_t) {
                                return array.bytes.data() + element_number(array.box, row) * element_size;
                              });
  }
  return difference;
}

}  // namespace retile
