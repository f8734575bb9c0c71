#include "retile/runtime/elements.h"

#include <fmt/format.h>

#include <cstring>

#include "retile/base/error.h"
#include "retile/runtime/numbers.h"
#include "retile/runtime/tile_parts.h"

namespace retile::runtime {

std::string format_element(ElementType element, const std::byte* bytes) {
  return with_number(element, [&]<typename Number>(Number number) {
    std::memcpy(&number, bytes, sizeof number);
    return fmt::format("{}", number);
  });
}

std::uint64_t bits_of_element(ElementType element, const std::byte* bytes) {
  if (bytes_of(element) == 8) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, bytes, sizeof bits);
    return bits;
  }
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

Shape element_index(const Shape& shape, std::int64_t number) {
  Shape index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; number /= shape[d]) index[d] = number % shape[d];
  return index;
}

Shape element_index(const Placement& placement, Device device, std::int64_t number) {
  for (const Part& part : placement.parts(device)) {
    Shape index = part.box.lo;
    std::int64_t left = number - part.offset;
    for (std::size_t d = 0; d < index.size() && left >= 0; left %= part.strides[d], ++d) {
      index[d] += left / part.strides[d];
    }
    if (place_in(part, index) == number) return index;
  }
  throw InternalError("the device holds fewer elements");
}

}  // namespace retile::runtime
