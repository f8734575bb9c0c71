// Arithmetic on single elements: integers wrap, nothing is undefined. Function objects, so that loops over them
// vectorise.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "retile/base/error.h"
#include "retile/types/element_type.h"

namespace retile::runtime {

// Calls action with a zero of the element type: float, double or std::int32_t.
template <typename Action>
decltype(auto) with_number(ElementType element, Action action) {
  switch (element) {
    case ElementType::f32:
      return action(float{});
    case ElementType::f64:
      return action(double{});
    case ElementType::i32:
      return action(std::int32_t{});
    default:
      throw InternalError("programs compute with f32, f64 and i32");
  }
}

// The type in which arithmetic on Number wraps.
template <typename Number>
using Wrapping = std::conditional_t<std::is_integral_v<Number>, std::uint32_t, Number>;

inline constexpr auto add = []<typename Number>(Number a, Number b) -> Number {
  return static_cast<Number>(static_cast<Wrapping<Number>>(a) + static_cast<Wrapping<Number>>(b));
};

inline constexpr auto subtract = []<typename Number>(Number a, Number b) -> Number {
  return static_cast<Number>(static_cast<Wrapping<Number>>(a) - static_cast<Wrapping<Number>>(b));
};

inline constexpr auto multiply = []<typename Number>(Number a, Number b) -> Number {
  return static_cast<Number>(static_cast<Wrapping<Number>>(a) * static_cast<Wrapping<Number>>(b));
};

inline constexpr auto negate = []<typename Number>(Number a) -> Number {
  return std::is_integral_v<Number> ? subtract(Number{0}, a) : -a;
};

// An integer b is not 0.
inline constexpr auto divide = []<typename Number>(Number a, Number b) -> Number {
  if constexpr (std::is_integral_v<Number>) {
    if (b == -1) return negate(a);  // the smallest integer has no negative
  }
  return a / b;
};

// NaN where either is NaN.
inline constexpr auto larger = []<typename Number>(Number a, Number b) -> Number {
  if constexpr (std::is_integral_v<Number>) return a > b ? a : b;
  return a > b || a != a ? a : b;
};

inline constexpr auto smaller = []<typename Number>(Number a, Number b) -> Number {
  if constexpr (std::is_integral_v<Number>) return a < b ? a : b;
  return a < b || a != a ? a : b;
};

// x + sum_identity is x, bit by bit: -0 for floats, as 0 + -0 is 0.
template <typename Number>
constexpr Number sum_identity = std::is_integral_v<Number> ? Number{0} : -Number{0};

template <typename Number>
constexpr Number max_identity = std::is_integral_v<Number> ? std::numeric_limits<Number>::min()
                                                           : -std::numeric_limits<Number>::infinity();

// Toward zero where a float becomes an integer; what does not fit becomes the nearest that does, NaN 0.
template <typename Target, typename Source>
Target convert(Source value) {
  if constexpr (std::is_integral_v<Target> && std::is_floating_point_v<Source>) {
    if (value != value) return 0;
    if (value >= Source{2147483648}) return std::numeric_limits<Target>::max();
    if (value <= Source{-2147483648}) return std::numeric_limits<Target>::min();
  }
  return static_cast<Target>(value);
}

}  // namespace retile::runtime
