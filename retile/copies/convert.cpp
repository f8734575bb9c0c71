#include "retile/copies/convert.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "retile/base/error.h"

namespace retile {
namespace {

constexpr std::size_t converted_block = 512;  // elements

template <typename From, typename To>
To converted(From element) {
  constexpr bool is_halved = std::is_same_v<From, double> && sizeof(To) == 2;
  if constexpr (std::is_same_v<From, To>) {
    return element;
  } else if constexpr (is_halved) {
    return static_cast<To>(static_cast<float>(element));
  } else {
    return static_cast<To>(element);
  }
}

// Through blocks of elements that are aligned.
template <typename From, typename To>
void convert_blocks(std::size_t count, const std::byte* in, std::byte* out) {
  std::array<From, converted_block> from{};
  std::array<To, converted_block> to{};
  for (std::size_t begin = 0; begin < count; begin += converted_block) {
    const std::size_t length = std::min(converted_block, count - begin);
    std::memcpy(from.data(), in + begin * sizeof(From), length * sizeof(From));
    for (std::size_t i = 0; i < length; ++i) to[i] = converted<From, To>(from[i]);
    std::memcpy(out + begin * sizeof(To), to.data(), length * sizeof(To));
  }
}

// Calls visit(an element of the C++ type).
template <typename Visit>
void visit_type(ElementType type, Visit visit) {
  if (type == ElementType::f16) return visit(Eigen::half());
  if (type == ElementType::bf16) return visit(Eigen::bfloat16());
  if (type == ElementType::f32) return visit(float());
  ensure(type == ElementType::f64, "only floating-point numbers are converted");
  visit(double());
}

bool is_converted(ElementType type) { return kind_of(type) == NumberKind::floating && bytes_of(type) > 1; }

}  // namespace

bool can_convert(ElementType from, ElementType to) { return is_converted(from) && is_converted(to); }

void convert_elements(ElementType from, ElementType to, std::int64_t count, const std::byte* in, std::byte* out) {
  visit_type(from, [&](auto source) {
    visit_type(to, [&](auto target) {
      convert_blocks<decltype(source), decltype(target)>(static_cast<std::size_t>(count), in, out);
    });
  });
}

}  // namespace retile
