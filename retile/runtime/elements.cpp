#include "retile/runtime/elements.h"

#include <fmt/format.h>

#include <cstring>

#include "retile/runtime/numbers.h"

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
  Shape index = element_index(placement.local_shape(), number);
  const Shape corner = placement.offset(device);
  for (std::size_t d = 0; d < index.size(); ++d) index[d] += corner[d];
  return index;
}

}  // namespace retile::runtime
