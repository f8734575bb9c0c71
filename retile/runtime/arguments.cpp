#include "retile/runtime/arguments.h"

#include <cstring>
#include <map>

#include "retile/base/mixing.h"
#include "retile/runtime/numbers.h"
#include "retile/runtime/strided.h"
#include "retile/runtime/tile_parts.h"

namespace retile::runtime {
namespace {

template <typename Number>
Number made_up_number(std::uint64_t bits) {
  if constexpr (std::is_integral_v<Number>) {
    return static_cast<Number>((bits >> 32U) * 200U >> 32U) - 100;
  } else {
    return static_cast<Number>(static_cast<int>(bits >> 56U) - 128) / Number{128};
  }
}

}  // namespace

ReadBox made_up_array(ElementType element, const Shape& shape, std::uint64_t seed) {
  return [element, shape, seed](const Box& box, std::byte* out) {
    const StridedView rows = sliced(shape, box.lo, box.hi);
    with_number(element, [&]<typename Number>(Number) {
      for_each_row(rows, [&](std::int64_t start) {
        for (std::int64_t i = start; i < start + row_length(rows); ++i) {
          const auto number = made_up_number<Number>(mix_bits(seed ^ mix_bits(static_cast<std::uint64_t>(i))));
          std::memcpy(out, &number, sizeof number);
          out += sizeof number;
        }
      });
    });
  };
}

TileBuffers read_tiles(const language::ArrayType& type, const std::vector<Device>& devices, const ReadBox& read) {
  const std::int64_t size = bytes_of(type.element);
  std::map<Shape, std::size_t> known;  // where the tile with this corner is
  TileBuffers tiles;
  for (const Device device : devices) {
    const auto [same, is_new] = known.try_emplace(corner_of(type.placement, device), tiles.size());
    if (is_new) {
      tiles.emplace_back(static_cast<std::size_t>(type.placement.size(device) * size));
      write_parts(type.placement, device, tiles.back().data(), size, read);
    } else {
      tiles.push_back(Buffer(tiles[same->second]));
    }
  }
  return tiles;
}

}  // namespace retile::runtime
