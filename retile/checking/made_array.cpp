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

// The bytes of consecutive elements of a made-up array, of a size that the compiler knows: models have many.
template <std::size_t size>
void make_small_elements(std::uint64_t seed, std::int64_t first, std::byte* out, std::size_t bytes) {
  auto number = static_cast<std::uint64_t>(first);
  for (std::size_t done = 0; done < bytes; done += size, ++number) {
    const std::uint64_t bits = mix_bits(seed ^ mix_bits(number));
    std::memcpy(out + done, &bits, size);
  }
}

// The bytes of consecutive elements of a made-up array.
void make_elements(const MadeArray& array, std::int64_t first, std::byte* out, std::size_t bytes) {
  if (array.element_size == 2) return make_small_elements<2>(array.seed, first, out, bytes);
  if (array.element_size == 4) return make_small_elements<4>(array.seed, first, out, bytes);
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

std::optional<std::string> find_difference(const MadeArray& array, const Tile& tile, Device device,
                                           const Box& expected) {
  const std::int64_t element_size = array.element_size;
  if (tile.box != expected) {
    return fmt::format("device {} holds {} instead of {}", device, to_string(tile.box), to_string(expected));
  }
  const std::int64_t tile_bytes = checked_bytes(volume(expected), element_size);
  if (static_cast<std::int64_t>(tile.bytes.size()) != tile_bytes) {
    return fmt::format("device {} holds {} bytes instead of {}", device, tile.bytes.size(), tile_bytes);
  }
  const Box whole = box_at(Shape(array.shape.size(), 0), array.shape);
  std::vector<std::byte> should;
  std::optional<std::string> difference;
  for_each_row(expected, element_size, [&](const Shape& row, std::size_t bytes) {
    if (difference) return;
    const std::byte* is = tile.bytes.data() + element_number(tile.box, row) * element_size;
    should.resize(bytes);
    make_elements(array, element_number(whole, row), should.data(), bytes);
    if (std::memcmp(is, should.data(), bytes) == 0) return;
    const auto at = std::mismatch(is, is + bytes, should.begin()).first - is;
    Shape element = row;
    if (!element.empty()) element.back() += at / element_size;
    difference = fmt::format("device {}, element {}: byte {} is {:#04x} instead of {:#04x}", device, to_string(element),
                             at % element_size, std::to_integer<unsigned>(is[at]),
                             std::to_integer<unsigned>(should[static_cast<std::size_t>(at)]));
  });
  return difference;
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

}  // namespace retile
