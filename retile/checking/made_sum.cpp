#include "retile/checking/made_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "retile/base/mixing.h"
#include "retile/copies/combine.h"
#include "retile/types/text.h"

namespace retile {
namespace {

template <typename Visit>
void for_each_element(const Box& box, Visit visit) {
  if (volume(box) == 0) return;
  Shape element = box.lo;
  for (bool is_inside = true; is_inside;) {
    visit(element);
    is_inside = false;
    for (std::size_t i = element.size(); i-- > 0 && !is_inside;) {
      is_inside = ++element[i] < box.hi[i];
      if (!is_inside) element[i] = box.lo[i];
    }
  }
}

}  // namespace

MadeSum::MadeSum(const ReduceStep& reduce, Shape stacked, std::uint64_t seed)
    : reduce_(reduce), stacked_(std::move(stacked)), seed_(seed), size_(bytes_of(reduce.element)) {}

void MadeSum::make_parts(const std::vector<Part>& held, std::byte* memory) const {
  for (const Part& part : held) {
    for_each_element(part.box, [&](const Shape& element) {
      store_number(reduce_.element, number_at(element), memory + place_of(part, element) * size_);
    });
  }
}

std::optional<std::string> MadeSum::find_difference(const std::vector<Part>& held, Device device,
                                                    const std::byte* memory) const {
  std::optional<std::string> difference;
  std::vector<std::byte> expected(static_cast<std::size_t>(size_));
  for (const Part& part : held) {
    for_each_element(part.box, [&](const Shape& element) {
      if (difference) return;
      make_whole(element, expected.data());
      if (std::memcmp(memory + place_of(part, element) * size_, expected.data(), expected.size()) == 0) return;
      difference = fmt::format("device {}, element {}: not the {} of its parts", device, to_string(element),
                               name_of(reduce_.reduction));
    });
  }
  return difference;
}

std::int64_t MadeSum::number_at(const Shape& element) const {
  std::uint64_t number = seed_;
  for (std::size_t i = 0; i < element.size(); ++i) {
    number = number * static_cast<std::uint64_t>(stacked_[i]) + static_cast<std::uint64_t>(element[i]);
  }
  return static_cast<std::int64_t>(mix_bits(number) % 7) - 3;
}

// All parts of an element of the result, combined in order.
void MadeSum::make_whole(const Shape& element, std::byte* out) const {
  Box parts;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < stacked_.size(); ++i) {
    const bool is_part = std::binary_search(reduce_.dimensions.begin(), reduce_.dimensions.end(), static_cast<int>(i));
    parts.lo.push_back(is_part ? 0 : element[kept]);
    parts.hi.push_back(is_part ? stacked_[i] : element[kept] + 1);
    kept += is_part ? 0 : 1;
  }
  std::vector<std::byte> rows(static_cast<std::size_t>(volume(parts) * size_));
  make_parts({packed_part(parts)}, rows.data());
  combine_rows(reduce_.reduction, reduce_.element, volume(parts), 1, rows.data(), out);
}

}  // namespace retile
